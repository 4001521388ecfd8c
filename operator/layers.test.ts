import { globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { type Layer, LAYERS } from './layers.ts';

const OPERATOR = import.meta.dirname;
/** Static, re-exported, dynamic and type imports alike. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*'([^']+)'/g;
const IMPURE = /^(?:node:(?!util)|undici|express|winston|classic-level|level)|process\.env/;

interface Import {
  readonly file: string;
  /** A file under `operator/`, or a package. */
  readonly imported: string;
}

/**
 * The folder of the list that a file is in: the longest, since a package may have folders with
 * rules of their own.
 */
function folderOf(file: string): string {
  const folders = LAYERS.flat().map(({ folder }) => folder);
  const around = folders.filter((folder) => file === folder || file.startsWith(`${folder}/`));
  return around.toSorted((a, b) => b.length - a.length)[0] ?? file;
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(OPERATOR, file), 'utf8');
  return [...text.matchAll(SPECIFIER)].map(([, specifier = '']) => ({
    file,
    imported: specifier.startsWith('.') ? normalize(join(dirname(file), specifier)) : specifier,
  }));
}

const production = globSync('**/*.ts', { cwd: OPERATOR }).filter(
  (file) =>
    !file.endsWith('.test.ts') &&
    !file.includes('testing/') &&
    !file.startsWith('layers') &&
    !file.startsWith('http/dashboard/client'),
);
const imports = production.flatMap(importsOf);

const rows = new Map(
  LAYERS.flatMap((row, index) => row.map((layer) => [layer.folder, { layer, index }] as const)),
);

function problemWith({ file, imported }: Import, rules: typeof rows = rows): string | undefined {
  const [own, other] = [rules.get(folderOf(file)), rules.get(folderOf(imported))];
  if (own === undefined || (imported.startsWith('..') && imported !== '../package.json'))
    return `${file} imports ${imported}`;
  if (other === undefined || other === own) return undefined;
  const isForbidden = own.layer.not?.some((folder) => imported.startsWith(`${folder}/`)) ?? false;
  const allowed = other.index < own.index && !isForbidden;
  return allowed ? undefined : `${file} imports ${imported}`;
}

test('nothing imports what stands beside it or above it', () => {
  expect(imports.flatMap((found) => problemWith(found) ?? [])).toStrictEqual([]);
});

test('what would be an import upwards is seen', () => {
  expect(problemWith({ file: 'settings/a.ts', imported: 'http/b.ts' })).toBeDefined();
  expect(problemWith({ file: 'settings/a.ts', imported: 'telemetry/clock.ts' })).toBeDefined();
  expect(problemWith({ file: 'destinations/a.ts', imported: 'ledger/ledger.ts' })).toBeDefined();
  expect(problemWith({ file: 'http/a.ts', imported: '../e2e/b.ts' })).toBeDefined();
  expect(problemWith({ file: 'metering/meters/a.ts', imported: 'metering/b.ts' })).toBeDefined();
  expect(problemWith({ file: 'delivery/a.ts', imported: 'metering/meters/b.ts' })).toBeDefined();
  expect(problemWith({ file: 'http/a.ts', imported: 'model/event.ts' })).toBeUndefined();
  expect(imports.length).toBeGreaterThan(1000);
});

test('domain code reads no file, no clock and no environment by itself', () => {
  const pure = new Set(
    LAYERS.flat()
      .filter((layer: Layer) => layer.pure === true)
      .map(({ folder }) => folder),
  );
  const found = imports.filter(
    ({ file, imported }) =>
      pure.has(folderOf(file)) && IMPURE.test(imported) && imported !== 'node:crypto',
  );
  expect(found).toStrictEqual([]);
});

test('every folder of the operator has its place in the order', () => {
  const folders = readdirSync(OPERATOR, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.name === 'main.ts')
    .map(({ name }) => name);
  expect(LAYERS.flat().map(({ folder }) => folder)).toStrictEqual(expect.arrayContaining(folders));
});

test('nothing that runs in a cluster imports a test or its rig', () => {
  const found = imports.filter(({ imported }) => /\.test\.ts$|(^|\/)testing\//.test(imported));
  expect(found).toStrictEqual([]);
});
