import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { BUILT_IN_METRICS } from '../operator/model/catalog.ts';
import { CODES_FILE, generateTypes, TYPES_FILE, withMeasuredCodes } from './generate-types.ts';

test('the generated types never fall behind crds/: run "npm run generate" and commit', async () => {
  const committed = await readFile(new URL(`../${TYPES_FILE}`, import.meta.url), 'utf8');
  expect(committed).toBe(`${await generateTypes()}\n`);
});

test('the schema refuses every code of the catalogue: run "npm run generate" and commit', async () => {
  const committed = await readFile(new URL(`../${CODES_FILE}`, import.meta.url), 'utf8');
  expect(committed).toBe(withMeasuredCodes(committed));
  for (const { code } of BUILT_IN_METRICS) expect(committed).toContain(`'${code}'`);
});
