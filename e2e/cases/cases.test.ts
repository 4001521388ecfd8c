import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { listed, OTHER_CASES } from './case-ids.ts';

/** Titles and rows of tables of tests as they stand in the files. */
const TITLE = /['"`]((?:[A-Z]\d\d(?:, | and ))*[A-Z]\d\d)\b/g;

const operator = join(import.meta.dirname, '../../operator');
const texts = globSync('**/*.test.ts', { cwd: operator }).map(
  (file) => [file, readFileSync(join(operator, file), 'utf8')] as const,
);
const tested = new Set(
  texts
    .flatMap(([, text]) => [...text.matchAll(TITLE)])
    .flatMap(([, ids = '']) => ids.split(/, | and /)),
);

// Those of the host cluster are counted as they run: `cases.apiserver.test.ts`.
test.each(Object.entries(OTHER_CASES))('no case of %s is without a test', (_section, ids) => {
  expect(listed(ids).filter((id) => !tested.has(id))).toEqual([]);
});

test('a case is named by its id alone, which tells a reader nothing', () => {
  const silent = texts.flatMap(([file, text]) =>
    [...text.matchAll(/^.*['"`][A-Z]\d\d['"`],.*$/gm)].map(([line]) => `${file}: ${line.trim()}`),
  );
  expect(silent).toEqual([]);
});
