import { readFileSync, writeFileSync } from 'node:fs';
import { type Layer, LAYERS } from '../operator/layers.ts';

export const ARCHITECTURE_PAGE = new URL('../docs/architecture.md', import.meta.url);

const BEGIN =
  '<!-- packages: generated from operator/layers.ts by `npm run generate:docs`; edit it there -->';
const END = '<!-- packages: end -->';

/** The table of the packages, the lowest layer first; each may import those of the layers before its own. */
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

/** The page with the table as it has to be. Throws when the markers are gone. */
export function withPackages(page: string): string {
  const [before, rest] = split(page, BEGIN);
  const [, after] = split(rest, END);
  return `${before}${BEGIN}\n\n${packagesTable()}\n\n${END}${after}`;
}

function split(text: string, marker: string): readonly [string, string] {
  const at = text.indexOf(marker);
  if (at < 0) throw new Error(`no marker: docs/architecture.md: "${marker}": put it back`);
  return [text.slice(0, at), text.slice(at + marker.length)];
}

if (import.meta.main) {
  writeFileSync(ARCHITECTURE_PAGE, withPackages(readFileSync(ARCHITECTURE_PAGE, 'utf8')));
}
