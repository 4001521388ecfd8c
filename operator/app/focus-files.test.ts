import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { translatePriceBook } from '../controllers/price-book-settings.ts';
import { storeSpec } from '../controllers/stored-price-books.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  testSettings,
  testTenant,
} from '../http/testing/test-server.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { correctionOf } from '../model/correction.ts';
import { type FocusRequest, writeFocusFiles } from './focus-files.ts';

const OCTOBER = Date.UTC(2026, 9);
const NOVEMBER = Date.UTC(2026, 10);
const HOUR = 3_600_000;
const DATA = 'focus-1.2/cost-and-usage/billing_period=2026-10';
const MANIFEST = 'focus-1.2/metadata/billing_period=2026-10/manifest.json';
const SPEC = {
  currency: 'EUR',
  prices: [
    {
      name: 'instances',
      metric: 'tenant_instance_hours',
      rates: [
        {
          from: '2026-01-01',
          included: '2',
          graduated: [{ upTo: '5', amount: '0.333' }, { amount: '0.1' }],
        },
      ],
    },
  ],
};
const TENANTS = [testTenant('acme'), testTenant('burst')];

const used = useLedgers();
let directory: string;
let out: string;
let ledger: Ledger;

beforeEach(async () => {
  directory = await used.directory();
  out = await mkdtemp(join(tmpdir(), 'focus-files-'));
  ledger = await used.open(directory, { segmentLimits: { events: 20, bytes: 1e9 } });
  const events = ['acme', 'burst'].flatMap((tenant, index) =>
    Array.from({ length: 40 }, (_, hour) =>
      testEvent({
        tenant,
        quantity: `0.${7 + index}1`,
        windowStart: OCTOBER + (hour * 18 + index) * HOUR,
      }),
    ),
  );
  await ledger.append({ events, windowEnd: NOVEMBER });
  const [first] = events;
  if (first === undefined) throw new Error('no event');
  const note = { reason: 'twice', author: 'ann' };
  const correction = correctionOf(
    { event: first, sequence: 1 },
    1,
    -210_000_000n,
    '2026-11-02T00:00:00Z',
    note,
  );
  const next = testEvent({ tenant: 'acme', quantity: '9', windowStart: NOVEMBER });
  await ledger.append({ events: [correction, next], windowEnd: NOVEMBER + HOUR });
  await storeSpec(ledger, { name: 'tenant-standard', uid: 'u', spec: SPEC });
  const gap = {
    v: 1,
    source: 'pods',
    scope: 'pods',
    from: OCTOBER,
    to: OCTOBER + HOUR,
    reason: 'x',
  };
  await ledger.writeRecords([
    { key: 'gap/pods/pods/2026', value: JSON.stringify(gap) },
    ...TENANTS.map((tenant) => ({
      key: `discovery/tenant/${tenant.id}`,
      value: JSON.stringify({ v: 1, tenant, presence: { kind: 'present' } }),
    })),
  ]);
});

afterEach(() => rm(out, { recursive: true }));

const request = (change: Partial<FocusRequest> = {}): FocusRequest => ({
  place: directory,
  month: { from: OCTOBER, to: NOVEMBER, grain: 'hour', focusVersion: '1.2' },
  out,
  format: 'csv',
  defaultPlanCode: 'tenant-standard',
  clusterName: 'control-plane',
  version: '1.2.3',
  now: NOVEMBER + HOUR,
  ...change,
});

/** The lines of all files, sorted, without their headers. */
async function written(): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const name of await readdir(join(out, DATA), { recursive: true })) {
    if (!name.endsWith('.gz')) continue;
    const [, ...some] = linesOf(gunzipSync(await readFile(join(out, DATA, name))).toString());
    lines.push(...some);
  }
  return lines.toSorted();
}

const linesOf = (text: string): readonly string[] => text.trimEnd().split('\r\n');

describe('FOCUS files of the ledger tool', () => {
  test('have the rows that the API gives, and a manifest that describes them', async () => {
    const book = translatePriceBook('tenant-standard', SPEC);
    if (book.kind === 'invalid') throw new Error(book.message);
    const settings = { ...testSettings(), pricing: { books: [book.settings] } };
    const server = await startTestServer({
      ledger,
      usageDirectory: join(out, 'usage'),
      views: {
        settings: () => settings,
        discovery: quietDiscovery({ tenants: () => TENANTS }),
      },
    });
    const { text } = await server.call('GET', '/api/v1/focus?month=2026-10', { token });
    await server.close();
    await ledger.close();
    const names = await writeFocusFiles(request());
    expect(names.at(-1)).toBe(MANIFEST);
    expect(await written()).toStrictEqual(linesOf(text).slice(1).toSorted());
    const bytes = await readFile(join(out, names[0] ?? ''));
    const manifest = JSON.parse(await readFile(join(out, MANIFEST), 'utf8')) as {
      readonly files: readonly { readonly rows: number }[];
    };
    expect(manifest.files.reduce((sum, { rows }) => sum + rows, 0)).toBe(linesOf(text).length - 1);
    expect(manifest.files).toHaveLength(names.length - 1);
    expect(manifest).toMatchObject({
      period_status: 'Closed',
      complete: false,
      files: expect.arrayContaining([
        {
          name: names[0],
          rows: expect.any(Number) as number,
          bytes: bytes.length,
          sha256: createHash('sha256').update(bytes).digest('hex'),
        },
      ]) as unknown,
      sums: { charged: [{ tenant: 'acme', quantity: '28.19' }, { tenant: 'burst' }] },
      gaps: { ended: [{ source: 'pods', seconds: 3600 }] },
    });
    expect((await readdir(out)).filter((name) => name.startsWith('sums-'))).toStrictEqual([]);
  });

  test('bill a correction of a closed month where the operator does', async () => {
    await ledger.writeRecords([{ key: 'costs/closed/2026-10', value: '80' }]);
    await ledger.close();
    await writeFocusFiles(request());
    expect((await written()).some((line) => line.includes('Correction of'))).toBe(false);
    const november = { ...request().month, from: NOVEMBER, to: Date.UTC(2026, 11) };
    await writeFocusFiles(request({ month: november, format: 'parquet' }));
    const path = 'billing_period=2026-11/charge_day=2026-10-01/part-000.parquet';
    expect((await readFile(join(out, 'focus-1.2/cost-and-usage', path))).length).toBeGreaterThan(0);
  });

  test('take names from a MeteringPolicy, downtime where it says so, and one tenant on request', async () => {
    const metric = 'tenant_gpu_downtime_hours';
    const down = { ...testEvent({ tenant: 'burst', windowStart: OCTOBER }), id: 'down', metric };
    await ledger.append({ events: [down] });
    await ledger.close();
    const policyFile = join(out, 'policy.yaml');
    const policy = 'provider: Example Cloud, downtime: true';
    await writeFile(policyFile, `spec: { focus: { ${policy} } }`);
    await writeFocusFiles(request({ policyFile, tenant: 'burst' }));
    const lines = await written();
    expect(lines.filter((line) => line.includes(`,${metric},`))).toHaveLength(1);
    expect(lines.length).toBeGreaterThan(40);
    expect(lines.every((line) => line.includes(',Example Cloud,'))).toBe(true);
    expect(lines.some((line) => line.includes(',acme,'))).toBe(false);
    const bad = join(out, 'bad.yaml');
    await writeFile(bad, 'spec: { focus: { services: [{ metric: m, name: M, subcategory: X }] } }');
    await expect(writeFocusFiles(request({ policyFile: bad }))).rejects.toThrow(
      'not a ServiceSubcategory of FOCUS 1.2: "X"',
    );
  });

  test('are not written of a month whose events were deleted, nor of one that nobody measured', async () => {
    await ledger.close();
    const september = { ...request().month, from: Date.UTC(2026, 8), to: OCTOBER };
    await expect(writeFocusFiles(request({ month: september }))).rejects.toThrow(
      'the ledger has no usage of it or of an earlier one: "2026-09"',
    );
    expect(await readdir(out)).toEqual([]);
    const again = await used.open(directory);
    again.setRetention(HOUR);
    await again.retain(Date.UTC(2027, 0));
    await again.close();
    await expect(writeFocusFiles(request())).rejects.toThrow('may be deleted: "2026-10"');
  });
});
