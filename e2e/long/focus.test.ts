import { hash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FocusExportSettings } from '../../operator/settings/settings.ts';
import { exact, faultsOf, readCsv, type Row } from '../focus/checks.ts';
import { answersOfOctober, exportLastMonth, focusMonth } from '../focus/month.ts';
import { keysOf, type ObjectStore, REGION, startObjectStore } from '../focus/object-store.ts';
import { convertTo14, gapsTo14, lint14 } from '../focus/toolkit.ts';
import { duckdb, type Validation, validate } from '../focus/validator.ts';

/**
 * Rules that no file passes together: InvoiceId must be null by one and must not be null by the other, each for all rows. The
 * rule above them, InvoiceId-C-000-O, passes.
 */
const CONTRADICTIONS = ['InvoiceId-C-004-C', 'InvoiceId-C-005-C'];

const PAGE = join(import.meta.dirname, '../../docs/reference/focus.md');

let directory: string;
let csv: string;
let csv14: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'focus-validator-'));
  ({ csv, csv14 } = await focusMonth());
});

afterAll(() => rm(directory, { recursive: true }));

async function written(text: string): Promise<string> {
  const file = join(directory, 'month.csv');
  await writeFile(file, text);
  return file;
}

const validated = async (text: string): Promise<Validation> => validate(await written(text));

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

describe('focus-data-toolkit on the same month in the columns of FOCUS 1.4', () => {
  test('finds no fault', async () => {
    expect(await lint14(await written(csv14))).toStrictEqual([]);
  });

  test('finds the columns that 1.4 removed, a name outside a list, and a null price', async () => {
    expect(await lint14(await written(csv))).toStrictEqual([
      'unknown_column ProviderName',
      'unknown_column PublisherName',
    ]);
    const unlisted = csv14.replaceAll('Generative AI', 'Models');
    expect(await lint14(await written(unlisted))).toStrictEqual([
      'not_in_allowed_values ServiceSubcategory',
    ]);
    const unpriced = csv14.replace('Standard', '');
    expect(await lint14(await written(unpriced))).toStrictEqual([
      'required_for_usage_or_purchase PricingCategory',
    ]);
  });

  test('converts the file of 1.2 to the cells that we write', async () => {
    const converted = readCsv(await convertTo14(await written(csv), join(directory, 'converted')));
    const ours = readCsv(csv14);
    // It leaves columns of ours out, and adds the columns that we leave out.
    const named = (row: Row, other: Row = {}): Row =>
      Object.fromEntries(Object.entries(row).filter(([name]) => name in other));
    expect(ours.map((row, at) => named(row, converted[at]))).toStrictEqual(
      converted.map((row, at) => named(row, ours[at])),
    );
    const left = Object.keys(ours[0] ?? {}).filter((name) => !(name in (converted[0] ?? {})));
    expect(left.filter((name) => !name.startsWith('x_'))).toStrictEqual([]);
  });

  test('names the data sets that nobody can make of it, as the reference page does', async () => {
    const gaps = await gapsTo14(await written(csv));
    expect(gaps).toStrictEqual({
      'Contract Commitment': [],
      'Billing Period': ['BillingPeriodCreated', 'BillingPeriodLastUpdated', 'BillingPeriodStatus'],
      'Invoice Detail': [
        'InvoiceDetailCreated',
        'InvoiceDetailId',
        'InvoiceDetailLastUpdated',
        'InvoiceIssueStatus',
        'PaymentTerms',
        'ReferenceInvoiceId',
      ],
    });
    const page = await readFile(PAGE, 'utf8');
    for (const name of Object.keys(gaps)) expect(page).toContain(`| ${name} |`);
  });
});

test('downtime as rows fails no other rule of the validator and the toolkit', async () => {
  const month = await focusMonth(true);
  const rows = readCsv(month.csv);
  expect(rows.filter((row) => row['PricingQuantity'] === '0.0')).toMatchObject([
    { x_Metric: 'tenant_gpu_downtime_hours', ConsumedQuantity: '2.0', BilledCost: '0.0' },
  ]);
  expect(faultsOf(rows)).toStrictEqual([]);
  const { failed } = await validated(month.csv);
  expect(failed.filter((rule) => !CONTRADICTIONS.includes(rule))).toStrictEqual([]);
  expect(await lint14(await written(month.csv14))).toStrictEqual([]);
});

/** Unpriced, and informational. */
const LEFT_OUT = ['tenant_instance_hours', 'tenant_gpu_downtime_hours'];

const NONE = { json: { rows: [] } };

interface UsageAnswer {
  readonly tenant: string;
  readonly metric: string;
  readonly model: string;
  readonly quantity: number;
}

/** The first query in SQL of the reference page. */
async function documentedQuery(): Promise<string> {
  const page = await readFile(PAGE, 'utf8');
  const [, query] = /```sql\n([\s\S]*?)```/.exec(page) ?? [];
  if (query === undefined) throw new Error('docs/reference/focus.md: no query in SQL');
  return query;
}

describe('files in a bucket', () => {
  let store: ObjectStore;
  const to = (who: string, name = 'costs'): FocusExportSettings => ({
    format: 'parquet',
    grain: 'hour',
    version: '1.2',
    target: {
      kind: 'bucket',
      endpoint: store.endpoint,
      region: REGION,
      name,
      prefix: 'billing/',
      ...keysOf(who),
    },
  });
  let month = '';
  const copy = (): string => join(directory, 'copy');

  beforeAll(async () => {
    store = await startObjectStore();
  });

  afterAll(() => store[Symbol.asyncDispose]());

  test('are refused to a key without the right, by the name of the refusal and no secret', async () => {
    const { problem } = await exportLastMonth(to('reader'));
    expect(problem).toMatch(
      /^\d{4}-\d\d: PUT billing\/\S+: bucket "costs": HTTP 403: AccessDenied$/,
    );
    const nowhere = await exportLastMonth(to('writer', 'nowhere'));
    expect(nowhere.problem).toContain('bucket "nowhere": HTTP 403');
    expect((await exportLastMonth(to('nobody'))).problem).toContain('InvalidAccessKeyId');
    expect(await store.list()).toStrictEqual([]);
  });

  test('are those of the manifest, written with a key that may only write', async () => {
    const written = await exportLastMonth(to('writer'));
    expect(written.problem).toBeUndefined();
    month = written.month;
    const manifest = `billing/focus-1.2/metadata/billing_period=${month}/manifest.json`;
    const { files } = JSON.parse((await store.get(manifest)).toString()) as {
      readonly files: readonly { name: string; bytes: number; sha256: string }[];
    };
    const found = await store.list();
    expect(found.filter((key) => key.includes(`billing_period=${month}/`))).toStrictEqual(
      [...files.map(({ name }) => `billing/${name}`), manifest].toSorted(),
    );
    for (const { name, bytes, sha256 } of files) {
      const content = await store.get(`billing/${name}`);
      expect([content.length, hash('sha256', content, 'hex')]).toStrictEqual([bytes, sha256]);
      await mkdir(dirname(join(copy(), name)), { recursive: true });
      await writeFile(join(copy(), name), content);
    }
  });

  test('give DuckDB the quantities of /usage and the amounts of /costs', async () => {
    const rows = await duckdb((await documentedQuery()).replace('2026-10', month), copy());
    const range = 'from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z';
    const [usage, costs] = await answersOfOctober([
      `usage?${range}&group_by=tenant,model`,
      `costs?${range}&group_by=tenant`,
    ]);
    const { rows: used } = (usage ?? NONE).json as { readonly rows: readonly UsageAnswer[] };
    const expected = used
      .filter(({ metric }) => !LEFT_OUT.includes(metric))
      .map(({ tenant, metric, model, quantity }) => [
        tenant,
        metric,
        model,
        exact(String(quantity)),
      ]);
    const sums = rows
      .filter(([, , , unit]) => unit !== 'None')
      .map(([tenant, metric, model = '', , quantity = '']) => {
        return [tenant, metric, model.replace('None', ''), exact(quantity)];
      });
    expect(sums).toStrictEqual(expected);
    const { rows: owed } = (costs ?? NONE).json as {
      readonly rows: readonly { tenant: string; metric: string; cost?: number }[];
    };
    for (const { tenant, metric, cost = 0 } of owed) {
      const mine = rows.filter(([owner, of]) => owner === tenant && of === metric);
      const amounts = mine.map((row) => exact(row.at(-1) ?? ''));
      expect(amounts.reduce((sum, one) => sum + one, 0n)).toBe(exact(String(cost)));
    }
  });

  test('pass the validator as Parquet too', async () => {
    const part = `focus-1.2/cost-and-usage/billing_period=${month}/charge_day=${month}-02/part-000.parquet`;
    const { failed } = await validate(join(copy(), part));
    expect(failed.filter((rule) => !CONTRADICTIONS.includes(rule))).toStrictEqual([]);
  });
});
