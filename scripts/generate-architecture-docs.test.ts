import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { LAYERS } from '../operator/layers.ts';
import { ARCHITECTURE_PAGE, packagesTable, withPackages } from './generate-architecture-docs.ts';

test('the table of packages is out of date; run npm run generate:docs', () => {
  const page = readFileSync(ARCHITECTURE_PAGE, 'utf8');
  expect(withPackages(page)).toBe(page);
});

test('a package is missing in the table, or a cell breaks its row', () => {
  const rows = packagesTable().split('\n').slice(2);
  expect(rows).toHaveLength(LAYERS.flat().length);
  for (const row of rows) expect(row.split('|')).toHaveLength(6);
});

test('a page without markers is refused', () => {
  expect(() => withPackages('# Architecture')).toThrow('no marker');
});
