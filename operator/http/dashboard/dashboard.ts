import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { Request, Response } from 'express';
import { Problem } from '../problem.ts';
import { readQuery } from '../query.ts';
import type { Route } from '../route.ts';

/** One file of the dashboard, in memory. */
export interface Asset {
  readonly body: Buffer;
  /** The body, compressed. */
  readonly gzip: Buffer;
  readonly contentType: string;
  readonly etag: string;
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.md': 'text/markdown; charset=utf-8',
  '.yaml': 'text/yaml; charset=utf-8',
};

/** The libraries of the pages: the path that each is served under, and its module. */
const VENDOR: Readonly<Record<string, string>> = {
  'vendor/preact.js': 'preact',
  'vendor/hooks.js': 'preact/hooks',
  'vendor/htm.js': 'htm',
  'vendor/uplot.js': 'uplot/dist/uPlot.esm.js',
  'vendor/uplot.css': 'uplot/dist/uPlot.min.css',
};

const REPOSITORY = join(import.meta.dirname, '../../..');

/** Pages of the repository that the documentation links to, served under `docs/repository/`. */
const REPOSITORY_PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CODE_OF_CONDUCT.md',
  'CONTRIBUTING.md',
  'GOVERNANCE.md',
  'MAINTAINERS.md',
  'ROADMAP.md',
  'SECURITY.md',
];

/** How libraries import Preact. Browsers cannot resolve packages, so a path replaces it. */
const PREACT_IMPORT = 'from"preact"';

const CLIENT = join(import.meta.dirname, 'client');

/**
 * Reads the files of the dashboard, by path relative to `/dashboard/`. The image has all of them in
 * one directory (`scripts/bundle.ts`). A checkout takes the libraries from their packages and the
 * documents from `docs/`.
 */
export function readAssets(directory = CLIENT): ReadonlyMap<string, Asset> {
  const ownFiles = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => CONTENT_TYPES[extname(path)] !== undefined)
    .map((path) => [path, join(directory, path)] as const);
  const isBundled = ownFiles.some(([path]) => path.startsWith('docs/'));
  const elsewhere = isBundled ? [] : [...vendorFiles(), ...documentFiles()];
  return new Map([...ownFiles, ...elsewhere].map(([path, file]) => [path, readAsset(path, file)]));
}

/** Returns the page for a request. */
export type Page = (request: Request) => Asset;

/**
 * The HTML page, which loads the rest of the files. It is marked when reading needs a token that
 * the request has not brought: the page then asks its reader before the first request to the API.
 */
export function dashboardPage(
  assets: ReadonlyMap<string, Asset>,
  lacksToken: (request: Request) => boolean,
): Page {
  const page = assets.get('index.html');
  if (page === undefined) throw new Error('the dashboard is incomplete: index.html: not found');
  const html = page.body.toString().replace('<html ', '<html data-token="needed" ');
  const closed = assetOf(Buffer.from(html), page.contentType);
  return (request) => (lacksToken(request) ? closed : page);
}

/** The files of the libraries, which `scripts/bundle.ts` copies beside the pages. */
export function vendorFiles(): readonly (readonly [path: string, file: string])[] {
  return Object.entries(VENDOR).map(([path, module]) => [path, packageFile(module)]);
}

/**
 * The files of the documentation, which `scripts/bundle.ts` copies beside the pages: `docs/`, and
 * the pages at the top of the repository.
 */
export function documentFiles(): readonly (readonly [path: string, file: string])[] {
  const documents = join(REPOSITORY, 'docs');
  const pages = readdirSync(documents, { recursive: true, encoding: 'utf8' })
    .filter((path) => ['.md', '.yaml'].includes(extname(path)))
    .map((path) => [`docs/${path.replaceAll(sep, '/')}`, join(documents, path)] as const);
  const others = REPOSITORY_PAGES.map(
    (name) => [`docs/repository/${name}`, join(REPOSITORY, name)] as const,
  );
  return [...pages, ...others];
}

function packageFile(module: string): string {
  return fileURLToPath(import.meta.resolve(module));
}

function readAsset(path: string, file: string): Asset {
  const body = Buffer.from(
    readFileSync(file, 'utf8').replaceAll(PREACT_IMPORT, 'from"./preact.js"'),
  );
  return assetOf(body, CONTENT_TYPES[extname(path)] ?? 'application/octet-stream');
}

/** A file with its compressed body and its ETag. */
export function assetOf(body: Buffer, contentType: string): Asset {
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  // Weak, because both bodies have the same ETag.
  return { body, gzip: gzipSync(body, { level: 9 }), contentType, etag: `W/"${digest}"` };
}

/**
 * The routes of the dashboard's files. The files have no data and need no token: the pages call the
 * API like any other client, with the token of their reader.
 */
export function dashboardRoutes(
  assets: ReadonlyMap<string, Asset>,
  below = '/dashboard',
): readonly Route[] {
  const paths = [
    '{file}',
    '{folder}/{file}',
    '{folder}/{inner}/{file}',
    '{folder}/{inner}/{innermost}/{file}',
  ];
  return paths.map((path) => ({
    method: 'get',
    path: `${below}/${path}`,
    access: 'open',
    summary: 'a file of the dashboard',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        const { folder, inner, innermost, file } = request.params;
        const asset = assets.get([folder, inner, innermost, file].filter(Boolean).join('/'));
        if (asset === undefined) throw new Problem(404, 'no such file of the dashboard: open /');
        sendAsset(response, asset);
      },
    ],
  }));
}

/** Sends a file. Browsers revalidate it each time and mostly get 304. */
export function sendAsset(response: Response, { body, gzip, contentType, etag }: Asset): void {
  response.set({ 'Content-Type': contentType, ETag: etag, 'Cache-Control': 'no-cache' });
  response.vary('Accept-Encoding');
  const isGzip = gzip.length < body.length && response.req.acceptsEncodings('gzip') !== false;
  if (response.req.headers['if-none-match'] === etag) response.status(304).end();
  else if (isGzip) response.set('Content-Encoding', 'gzip').end(gzip);
  else response.end(body);
}
