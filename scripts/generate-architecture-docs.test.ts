import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LAYERS } from '../operator/layers.ts';
import { ARCHITECTURE_PAGE, packagesTable, withGenerated } from './generate-architecture-docs.ts';
import { problemsOf, STEPS } from './pod-way.ts';

test('a generated part is out of date; run npm run generate:docs', () => {
  const page = readFileSync(ARCHITECTURE_PAGE, 'utf8');
  expect(withGenerated(page)).toBe(page);
});

test('a package is missing in the table, or a cell breaks its row', () => {
  const rows = packagesTable().split('\n').slice(2);
  expect(rows).toHaveLength(LAYERS.flat().length);
  for (const row of rows) expect(row.split('|')).toHaveLength(6);
});

test('a page without markers is refused', () => {
  expect(() => withGenerated('# Architecture')).toThrow('no marker');
});

test('a step on the way of a pod is gone, or nothing leads to it', () => {
  expect(problemsOf(STEPS)).toStrictEqual([]);
});

test('a left-out file, a lost name and a lost file are seen', () => {
  const without = STEPS.filter(({ file }) => !file.endsWith('/watches.ts'));
  expect(problemsOf(without)).toContainEqual(expect.stringContaining('no import between'));
  const renamed = STEPS.slice(0, 1).map((step) => ({ ...step, name: 'noSuchName' }));
  expect(problemsOf(renamed)).toStrictEqual([expect.stringContaining('no such name')]);
  const lost = { file: 'operator/no-such-file.ts', name: 'a', does: '' };
  expect(problemsOf([lost])).toContainEqual(expect.stringContaining('no such file'));
});

test('the way of a pod grows longer', () => {
  expect(STEPS.length).toBeLessThanOrEqual(30);
});

test('the reading order is longer than an afternoon', () => {
  const page = readFileSync(ARCHITECTURE_PAGE, 'utf8');
  const [, section = ''] = /^## Ten files to read$([\s\S]*?)^## /m.exec(page) ?? [];
  const files = [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file = '']) => file);
  expect(files).toHaveLength(10);
  const lines = files.map(
    (file) => readFileSync(join(import.meta.dirname, '..', file), 'utf8').split('\n').length,
  );
  expect(lines.reduce((a, b) => a + b)).toBeLessThan(2800);
});
