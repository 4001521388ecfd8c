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
  /** The same compressed. */
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

/** The libraries that the pages load, by the name they are served under, and the file of the package it is. */
const VENDOR: Readonly<Record<string, string>> = {
  'vendor/preact.js': 'preact',
  'vendor/hooks.js': 'preact/hooks',
  'vendor/htm.js': 'htm',
  'vendor/uplot.js': 'uplot/dist/uPlot.esm.js',
  'vendor/uplot.css': 'uplot/dist/uPlot.min.css',
};

const REPOSITORY = join(import.meta.dirname, '../../..');

/** The pages beside the documentation that it leads to; they are served under `docs/repository/`. */
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

/** Browsers know no packages: where one library names another, its path stands instead. */
const PREACT_IMPORT = 'from"preact"';

const CLIENT = join(import.meta.dirname, 'client');

/**
 * The dashboard's files by path relative to `/dashboard/`, read once: every viewer is served from
 * memory. The image has all of them in one directory, bundled (`scripts/bundle.ts`); a checkout takes the libraries from
 * their packages and the documents from where they are written.
 */
export function readAssets(directory = CLIENT): ReadonlyMap<string, Asset> {
  const own = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => CONTENT_TYPES[extname(path)] !== undefined)
    .map((path) => [path, join(directory, path)] as const);
  const isBundled = own.some(([path]) => path.startsWith('docs/'));
  const elsewhere = isBundled ? [] : [...vendorFiles(), ...documentFiles()];
  return new Map([...own, ...elsewhere].map(([path, file]) => [path, readAsset(path, file)]));
}

/** The page as it is for whoever requests it. */
export type Page = (request: Request) => Asset;

/**
 * The page itself, which loads the rest. It says whether reading takes a token that the request has not brought: the reader
 * is asked for one before anything is requested with none.
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

/** The libraries' files, to be copied beside the pages by who builds the image. */
export function vendorFiles(): readonly (readonly [path: string, file: string])[] {
  return Object.entries(VENDOR).map(([path, module]) => [path, packageFile(module)]);
}

/**
 * The documentation's files, to be copied beside the pages likewise: all of `docs/` that can be read, and
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

/** A file to be served, in both forms. */
export function assetOf(body: Buffer, contentType: string): Asset {
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  // Weak, since it is the same of both forms.
  return { body, gzip: gzipSync(body, { level: 9 }), contentType, etag: `W/"${digest}"` };
}

/**
 * The dashboard's files. They hold no data and need no token: the pages ask the API like any other
 * client, with the token that their reader gives them.
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

/** Browsers ask each time, and mostly get the answer that nothing has changed. */
export function sendAsset(response: Response, { body, gzip, contentType, etag }: Asset): void {
  response.set({ 'Content-Type': contentType, ETag: etag, 'Cache-Control': 'no-cache' });
  response.vary('Accept-Encoding');
  const isGzip = gzip.length < body.length && response.req.acceptsEncodings('gzip') !== false;
  if (response.req.headers['if-none-match'] === etag) response.status(304).end();
  else if (isGzip) response.set('Content-Encoding', 'gzip').end(gzip);
  else response.end(body);
}
