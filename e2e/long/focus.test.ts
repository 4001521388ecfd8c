import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { focusMonth } from '../focus/month.ts';
import { type Validation, validate } from '../focus/validator.ts';

/**
 * Rules that no file passes together: InvoiceId must be null by one and must not be null by the other, each for all rows. The
 * rule above them, InvoiceId-C-000-O, passes.
 */
const CONTRADICTIONS = ['InvoiceId-C-004-C', 'InvoiceId-C-005-C'];

let directory: string;
let csv: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'focus-validator-'));
  ({ csv } = await focusMonth());
});

afterAll(() => rm(directory, { recursive: true }));

async function validated(text: string): Promise<Validation> {
  const file = join(directory, 'month.csv');
  await writeFile(file, text);
  return validate(file);
}

describe("the FinOps Foundation's validator on a month with every kind of row", () => {
  test('fails no rule but one of two that contradict each other', async () => {
    const { passed, failed } = await validated(csv);
    expect(failed.filter((rule) => !CONTRADICTIONS.includes(rule))).toStrictEqual([]);
    expect(failed).toHaveLength(1);
    expect(passed).toBeGreaterThanOrEqual(250);
  });

  test('fails a unit of our own making', async () => {
    const { failed } = await validated(csv.replaceAll('GPU-Hours', 'gpu-hours'));
    expect(failed).toContain('ConsumedUnit-C-003-O');
    expect(failed).toContain('PricingUnit-C-003-O');
  });
});
