import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { generateTypes, TYPES_FILE } from './generate-types.ts';

test('the generated types never fall behind crds/: run "npm run generate" and commit', async () => {
  const committed = await readFile(new URL(`../${TYPES_FILE}`, import.meta.url), 'utf8');
  expect(committed).toBe(`${await generateTypes()}\n`);
});
