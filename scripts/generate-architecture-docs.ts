import { readFileSync, writeFileSync } from 'node:fs';
import { type Layer, LAYERS } from '../operator/layers.ts';
import { wayList } from './pod-way.ts';

export const ARCHITECTURE_PAGE = new URL('../docs/explanation/architecture.md', import.meta.url);

/** The generated blocks, with the lines of the page around each. */
const PARTS: readonly (readonly [begin: string, end: string, text: () => string])[] = [
  [
    '<!-- packages: generated from operator/layers.ts by `npm run generate:docs`; edit it there -->',
    '<!-- packages: end -->',
    packagesTable,
  ],
  [
    '<!-- way: generated from scripts/pod-way.ts by `npm run generate:docs`; edit it there -->',
    '<!-- way: end -->',
    wayList,
  ],
];

/** Table of the packages, the lowest layer first. Each may import those of earlier layers. */
export function packagesTable(): string {
  const rows = LAYERS.flatMap((layer, index) =>
    layer.map((each) => `| ${index + 1} | ${code(each)} | ${each.does} | ${exceptions(each)} |`),
  );
  return ['| Layer | Package | What it does | And never |', '|---|---|---|---|', ...rows].join(
    '\n',
  );
}

function code({ folder }: Layer): string {
  return folder.endsWith('.ts') ? `\`${folder}\`` : `\`${folder}/\``;
}

function exceptions({ not = [], pure }: Layer): string {
  const folders = not.map((folder) => `\`${folder}/\``);
  const reads = pure === true ? ['a file, a clock or the environment'] : [];
  return [...folders, ...reads].join(', ');
}

/** Returns the page with its generated blocks. Throws if a marker is missing. */
export function withGenerated(page: string): string {
  return PARTS.reduce(
    (text, [begin, end, generated]) =>
      replaceBetween(text, { begin, end }, generated(), 'docs/explanation/architecture.md'),
    page,
  );
}

/**
 * Replaces the text between two markers of a page. Throws if one is missing; `name` is the page's
 * path.
 */
export function replaceBetween(
  page: string,
  { begin, end }: { readonly begin: string; readonly end: string },
  text: string,
  name: string,
): string {
  const [before, rest] = split(page, begin, name);
  const [, after] = split(rest, end, name);
  return `${before}${begin}\n\n${text}\n\n${end}${after}`;
}

function split(text: string, marker: string, name: string): readonly [string, string] {
  const at = text.indexOf(marker);
  if (at < 0) throw new Error(`no marker: ${name}: "${marker}": put it back`);
  return [text.slice(0, at), text.slice(at + marker.length)];
}

if (import.meta.main) {
  writeFileSync(ARCHITECTURE_PAGE, withGenerated(readFileSync(ARCHITECTURE_PAGE, 'utf8')));
}
