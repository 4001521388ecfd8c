import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CONFIGURATION_PAGE, configurationPage } from './generate-configuration-docs.ts';

test('the documentation of the configuration is out of date; run npm run generate:docs', () => {
  expect(readFileSync(CONFIGURATION_PAGE, 'utf8')).toBe(configurationPage());
});

test('a cell of the table breaks its row', () => {
  const rows = configurationPage()
    .split('\n')
    .filter((line) => line.startsWith('|'));
  expect(rows.length).toBeGreaterThan(70);
  for (const row of rows) expect(row.replaceAll('\\|', '').split('|').length).toBe(7);
});
