import { hash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Summing } from '../billing/usage/summing.ts';
import { faultsOf, exact, readCsv, type Row } from '../../e2e/focus/checks.ts';
import {
  quietDiscovery,
  quietViews,
  testClock,
  testSettings,
  testTenant,
} from '../http/testing/test-server.ts';
import { LevelRollups } from '../ledger/leveldb/level-rollups.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { correctionOf } from '../model/correction.ts';
import { bookOf, flat, priceOf, tiered } from '../model/pricing/testing/price-books.ts';
import type { FocusExportSettings } from '../settings/settings.ts';
import { FocusExport } from './focus-export.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const OCTOBER = Date.UTC(2026, 9);
const NOVEMBER = Date.UTC(2026, 10);
const LB = 'lb';
const ROOT = 'focus-1.2';

let directory: string;
let out: string;
let ledger: Ledger;
let summing: Summing;
let now: number;
let mayAct: boolean;
let settings: ReturnType<typeof testSettings>;

const used = (tenant: string, at: number, quantity: string, sku?: string) =>
  testEvent({ tenant, quantity, windowStart: at, sku });

const clock = { ...testClock, now: () => now };

const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Sums of the ledger in a directory of their own. */
function summingIn(name: string): Summing {
  return new Summing({ ledger, rollups: new LevelRollups(join(directory, name)), clock, logger });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'focus-export-'));
  out = join(directory, 'out');
  ledger = createMemoryLedger();
  now = NOVEMBER + 2 * DAY;
  mayAct = true;
  const prices = [
    priceOf('tenant_instance_hours', tiered('graduated', [[5, 0.333]], 0.1, 1)),
    priceOf('tenant_instance_hours', flat(0.0033), { name: LB, match: { sku: LB } }),
  ];
  settings = { ...testSettings(), pricing: { books: [bookOf(prices)] } };
  summing = summingIn('usage');
  await ledger.append({
    events: [
      used('acme', OCTOBER, '2'),
      used('acme', OCTOBER + 2 * DAY, '3.7'),
      used('acme', OCTOBER + 3 * DAY, '1.11', LB),
      used('burst', OCTOBER + 2 * DAY, '1.5'),
    ],
    windowEnd: NOVEMBER + 2 * DAY,
  });
  await summing.open();
});

afterEach(async () => {
  await summing.close();
  await rm(directory, { recursive: true });
});

function exporter(change: Partial<typeof clock> = {}, registry = new Registry()): FocusExport {
  const tenants = [testTenant('acme'), testTenant('burst')];
  return new FocusExport({
    views: {
      ...quietViews(() => settings),
      discovery: quietDiscovery({ tenants: () => tenants }),
    },
    ledger,
    totals: () => summing.totals,
    clock: { ...clock, ...change },
    version: '1.2.3',
    logger,
    registry,
    outbound: { client: () => Promise.reject(new Error('no bucket')) as never },
    mayAct: () => mayAct,
    closeMonth: (month, signal) => summing.closeMonth(month, signal),
  });
}

const target = (change: Partial<FocusExportSettings> = {}): FocusExportSettings => ({
  format: 'csv',
  grain: 'hour',
  version: '1.2',
  target: { kind: 'directory', path: out },
  ...change,
});

const pass = (change?: Partial<FocusExportSettings>): Promise<string | undefined> =>
  exporter().pass(target(change), new AbortController().signal);

/** The bytes of all files by name. */
async function written(): Promise<ReadonlyMap<string, Buffer>> {
  const names = await readdir(out, { recursive: true, withFileTypes: true });
  const files = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const contents = await Promise.all(
    files
      .toSorted()
      .map(async (path) => [path.slice(out.length + 1), await readFile(path)] as const),
  );
  return new Map(contents);
}

const namesOf = async (): Promise<readonly string[]> => [...(await written()).keys()];

async function rowsOf(month: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [name, bytes] of await written()) {
    if (!name.includes(`cost-and-usage/billing_period=${month}/`)) continue;
    rows.push(...readCsv(gunzipSync(bytes).toString()));
  }
  return rows;
}

/** The files of a month without its manifest. */
const filesOf = (month: string, all: ReadonlyMap<string, Buffer>) =>
  [...all].filter(([name]) => name.includes(`${month}/charge_day=`));

const manifestPath = (month: string): string =>
  `${ROOT}/metadata/billing_period=${month}/manifest.json`;

async function manifestOf(month: string): Promise<Record<string, unknown>> {
  const text = await readFile(join(out, manifestPath(month)), 'utf8');
  return JSON.parse(text) as Record<string, unknown>;
}

const day = (month: string, date: string, name = 'part-000.csv.gz'): string =>
  `${ROOT}/cost-and-usage/billing_period=${month}/charge_day=${date}/${name}`;

const total = (rows: readonly Row[]): bigint =>
  rows.reduce((sum, row) => sum + exact(row['BilledCost'] ?? ''), 0n);

describe('the export of FOCUS files', () => {
  test('writes each day of the open months, and a manifest that describes all files', async () => {
    await ledger.append({ events: [used('acme', NOVEMBER + HOUR, '1')] });
    expect(await pass()).toBeUndefined();
    expect(await namesOf()).toStrictEqual([
      day('2026-10', '2026-10-01'),
      day('2026-10', '2026-10-01', 'rounding-000.csv.gz'),
      day('2026-10', '2026-10-03'),
      day('2026-10', '2026-10-04'),
      day('2026-11', '2026-11-01'),
      `${ROOT}/metadata/billing_period=2026-10/manifest.json`,
      `${ROOT}/metadata/billing_period=2026-11/manifest.json`,
    ]);
    const rows = await rowsOf('2026-10');
    expect(faultsOf(rows)).toStrictEqual([]);
    // acme: 1 of 5.7 is included and 4.7 cost 0.333; 1.11 at 0.0033 is 0.00. burst: 0.5 cost 0.333.
    expect(total(rows)).toBe(exact('1.57') + exact('0.17'));
    expect(await manifestOf('2026-10')).toMatchObject({
      period_status: 'Closed',
      final: false,
      sums: {
        charged: [
          { tenant: 'acme', quantity: '6.81', cost: '1.57' },
          { tenant: 'burst', quantity: '1.5', cost: '0.17' },
        ],
      },
    });
  });

  test('writes a day again only when its usage changed, and gives equal bytes', async () => {
    await pass();
    const before = await written();
    await rm(join(out, day('2026-10', '2026-10-01')));
    await ledger.append({ events: [used('burst', OCTOBER + 2 * DAY + HOUR, '0.5')] });
    expect(await pass()).toBeUndefined();
    // The first day did not change, so nobody wrote it again.
    expect(await namesOf()).not.toContain(day('2026-10', '2026-10-01'));
    const after = await written();
    expect(after.get(day('2026-10', '2026-10-04'))).toEqual(
      before.get(day('2026-10', '2026-10-04')),
    );
    expect(after.get(day('2026-10', '2026-10-03'))).not.toEqual(
      before.get(day('2026-10', '2026-10-03')),
    );
    // A process that knows of no file writes the same.
    await rm(out, { recursive: true });
    await ledger.writeRecords([{ key: 'focus/export/2026-10', value: undefined }]);
    await pass();
    const again = await written();
    for (const [name, bytes] of filesOf('2026-10', after)) expect(again.get(name)).toEqual(bytes);
  });

  test('writes a day again when a price or a name changed', async () => {
    await pass();
    const before = await written();
    settings = { ...settings, focus: { services: [], provider: 'Example Cloud' } };
    await pass();
    const after = await written();
    for (const [name, bytes] of filesOf('2026-10', after)) {
      expect(bytes, name).not.toEqual(before.get(name));
    }
    expect((await rowsOf('2026-10')).every((row) => row['ProviderName'] === 'Example Cloud')).toBe(
      true,
    );
  });

  test('never changes the files of a closed month: a correction is in the open month', async () => {
    await pass();
    now = NOVEMBER + 6 * DAY;
    await ledger.append({ events: [], windowEnd: now });
    expect(await pass()).toBeUndefined();
    const before = await written();
    expect(await manifestOf('2026-10')).toMatchObject({ final: true });
    const page = await ledger.read(0, 1);
    if (page.kind === 'failed' || page.events[0] === undefined) throw new Error('no event');
    const [stored] = page.events;
    const note = { reason: 'twice', author: 'ann' };
    await ledger.append({
      events: [
        correctionOf(stored, 1, -500_000_000n, '2026-11-07T00:00:00Z', note),
        used('burst', OCTOBER + 3 * DAY, '4.25', LB),
        used('burst', NOVEMBER + DAY, '1'),
      ],
    });
    settings = { ...settings, focus: { services: [], provider: 'Renamed' } };
    expect(await pass()).toBeUndefined();
    const after = await written();
    expect(after.get(manifestPath('2026-10'))).toEqual(before.get(manifestPath('2026-10')));
    for (const [name, bytes] of filesOf('2026-10', before)) {
      expect(after.get(name), name).toEqual(bytes);
    }
    const rows = await rowsOf('2026-11');
    expect(faultsOf(rows.filter((row) => row['ChargeClass'] === ''))).toStrictEqual([]);
    expect(
      rows.map((row) => [row['ChargePeriodStart'], row['ChargeClass'], row['ConsumedQuantity']]),
    ).toStrictEqual([
      ['2026-10-01T00:00:00Z', 'Correction', '-0.5'],
      ['2026-10-04T00:00:00Z', 'Correction', '4.25'],
      ['2026-11-02T00:00:00Z', '', '1.0'],
    ]);
    expect(await namesOf()).toContain(day('2026-11', '2026-10-01'));
    expect(rows.every((row) => row['BillingPeriodStart'] === '2026-11-01T00:00:00Z')).toBe(true);
    // The tier that October filled last loses the half.
    expect(rows[0]?.['ContractedUnitPrice']).toBe('0.333');
    const ids = [...(await rowsOf('2026-10')), ...rows].map((row) => row['x_RowId']);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('closes a month after all of its usage, also where the sums are far behind', async () => {
    now = NOVEMBER + 6 * DAY;
    const many = Array.from({ length: 30_000 }, (_, index) =>
      used(
        `burst`,
        OCTOBER + 20 * DAY + (index % 240) * HOUR + Math.floor(index / 240) * 1_000,
        '0.01',
      ),
    );
    await ledger.append({ events: many, windowEnd: now });
    const closing = summingIn('behind');
    // Its own pass begins at the same time.
    await closing.open();
    await closing.closeMonth('2026-10', new AbortController().signal);
    const late = await closing.totals?.late('2026-10', { signal: new AbortController().signal });
    expect(late?.moved).toStrictEqual([]);
    await closing.close();
  });

  test('a rebuild of the sums closes a month where it was closed', async () => {
    now = NOVEMBER + 6 * DAY;
    await ledger.append({ events: [], windowEnd: now });
    const { signal } = new AbortController();
    await summing.closeMonth('2026-10', signal);
    await ledger.append({ events: [used('burst', OCTOBER + 5 * DAY, '1.51')] });
    const rebuilt = summingIn('rebuilt');
    await rebuilt.open();
    // Closing a closed month again sums everything.
    await rebuilt.closeMonth('2026-10', signal);
    const late = await rebuilt.totals?.late('2026-11', { signal });
    expect(late?.brought.map(({ item }) => item.quantity)).toStrictEqual(['1.51']);
    await rebuilt.close();
  });

  test('bills a correction to the cent when the month that has it is closed too', async () => {
    now = NOVEMBER + 6 * DAY;
    await ledger.append({ events: [], windowEnd: now });
    await pass();
    await ledger.append({ events: [used('acme', OCTOBER + 5 * DAY, '1.51', LB)] });
    const december = Date.UTC(2026, 11);
    await ledger.append({ events: [], windowEnd: december + 6 * DAY });
    now = december + 6 * DAY;
    expect(await pass()).toBeUndefined();
    // 1.11 at 0.0033 is 0.00, 2.62 is 0.01.
    const rows = await rowsOf('2026-11');
    expect(total(rows)).toBe(exact('0.01'));
    expect(rows.map((row) => row['ChargeCategory'])).toStrictEqual(['Adjustment', 'Usage']);
    expect(await namesOf()).toContain(day('2026-11', '2026-10-01', 'rounding-000.csv.gz'));
  });

  test('goes on where it ended, and has no manifest before all files are there', async () => {
    await mkdir(join(out, ROOT, 'cost-and-usage/billing_period=2026-10'), { recursive: true });
    // A file in the place of a directory: the second day cannot be written.
    const blocked = join(out, ROOT, 'cost-and-usage/billing_period=2026-10/charge_day=2026-10-03');
    await writeFile(blocked, '');
    expect(await pass()).toMatch(/^2026-10: .*(EEXIST|ENOTDIR)/);
    expect(await namesOf()).not.toContain(`${ROOT}/metadata/billing_period=2026-10/manifest.json`);
    await rm(blocked);
    const first = join(out, day('2026-10', '2026-10-01'));
    await rm(first);
    expect(await pass()).toBeUndefined();
    // The first day is written and not written twice.
    await expect(readFile(first)).rejects.toThrow('ENOENT');
    expect(await namesOf()).toContain(`${ROOT}/metadata/billing_period=2026-10/manifest.json`);
  });

  test('writes nothing while another process may lead', async () => {
    mayAct = false;
    expect(await pass()).toBe('2026-10: the Lease is not renewed');
    await expect(readdir(out)).rejects.toThrow('ENOENT');
  });

  test('says why it fails, tries again after five minutes, and runs after each hour', async () => {
    settings = { ...settings, focus: { services: [], export: target() } };
    // A file in the place of the directory.
    await writeFile(out, '');
    const stop = new AbortController();
    const registry = new Registry();
    const shown: (string | undefined)[] = [];
    const sleep = async (ms: number): Promise<void> => {
      shown.push(focus.problem());
      now += ms;
      if (shown.length === 5) await rm(out);
      if (shown.length === 200) stop.abort();
    };
    const focus = exporter({ sleep }, registry);
    await focus.run(stop.signal);
    expect(shown[0]).toMatch(/^2026-10: .*(EEXIST|ENOTDIR)/);
    // Ten polls of 30 seconds.
    expect(shown.findIndex((problem) => problem === undefined)).toBe(10);
    expect(shown.slice(10).every((problem) => problem === undefined)).toBe(true);
    const name = 'meterfeed_focus_export_success_timestamp_seconds';
    const last = (NOVEMBER + 2 * DAY + HOUR + 180_000) / 1000;
    expect(await registry.metrics()).toContain(`${name} ${last}\n`);
  });

  test('writes a day again when downtime gets rows', async () => {
    const metric = 'tenant_gpu_downtime_hours';
    const down = { ...used('acme', OCTOBER + 2 * DAY, '1.5'), id: 'down', metric };
    await ledger.append({ events: [down] });
    await pass();
    const before = await written();
    settings = { ...settings, focus: { services: [], downtime: true } };
    await pass();
    const after = await written();
    const changed = filesOf('2026-10', after).filter(
      ([name, bytes]) => before.get(name)?.equals(bytes) !== true,
    );
    expect(changed.map(([name]) => name)).toStrictEqual([day('2026-10', '2026-10-03')]);
    const rows = (await rowsOf('2026-10')).filter((row) => row['x_Metric'] === metric);
    expect(rows).toMatchObject([
      { ConsumedQuantity: '1.5', PricingQuantity: '0.0', BilledCost: '0.0' },
    ]);
  });

  test('writes FOCUS 1.4 beside the files of 1.2, also as Parquet', async () => {
    await pass();
    const before = await written();
    expect(await pass({ version: '1.4' })).toBeUndefined();
    const after = await written();
    for (const [name, bytes] of before) expect(after.get(name), name).toEqual(bytes);
    const fresh = [...after.keys()].filter((name) => !before.has(name));
    const others = [...before.keys()].map((name) => name.replace(ROOT, 'focus-1.4'));
    expect(fresh).toStrictEqual(others);
    const part = day('2026-10', '2026-10-01').replace(ROOT, 'focus-1.4');
    const rows = readCsv(gunzipSync(after.get(part) ?? '').toString());
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows)
      expect(row).toMatchObject({ InvoiceDetailId: '', ServiceProviderName: 'control-plane' });
    for (const row of rows) expect(row).not.toHaveProperty('ProviderName');
    await pass({ version: '1.4', format: 'parquet' });
    const parquet = (await written()).get(part.replace('csv.gz', 'parquet'))?.toString('latin1');
    expect(parquet).toContain('InvoiceDetailId');
    expect(parquet).not.toContain('PublisherName');
  });

  test('of 1.2 knows the closed months that a release without a version has written', async () => {
    await pass();
    const [record] = await Array.fromAsync(ledger.records('focus/export/2026-10'));
    const place = hash('sha256', JSON.stringify([out, 'hour']), 'hex');
    expect(JSON.parse(record?.[1] ?? '')).toMatchObject({ target: place.slice(0, 32) });
  });

  test('empties files of another format, so that no row is there twice', async () => {
    await pass();
    await pass({ format: 'parquet' });
    expect(await rowsOf('2026-10').catch(() => 'parquet')).toBe('parquet');
    const csv = (await written()).get(day('2026-10', '2026-10-01'));
    expect(readCsv(gunzipSync(csv ?? '').toString())).toStrictEqual([]);
    expect(await namesOf()).toContain(day('2026-10', '2026-10-01', 'part-000.parquet'));
  });
});
