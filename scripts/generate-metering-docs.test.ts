import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { METERS } from '../operator/metering/meters/meters.ts';
import { METERING_PAGE, metersTable, withMeters } from './generate-metering-docs.ts';

test('the table of meters is out of date; run npm run generate:docs', () => {
  const page = readFileSync(METERING_PAGE, 'utf8');
  expect(withMeters(page)).toBe(page);
});

test('a metric is missing in the table, or a cell breaks its row', () => {
  const rows = metersTable().split('\n').slice(2);
  expect(rows).toHaveLength(Object.keys(METERS).length);
  for (const row of rows) expect(row.split('|')).toHaveLength(6);
});
