import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { correctionOf } from '../model/correction.ts';
import type { UsageEvent } from '../model/event.ts';
import { bookOf, flat, priceOf } from '../model/pricing/testing/price-books.ts';
import { CANARY, FOREIGN, OWN, twoTenants } from './portal/testing/two-tenants.ts';
import type { Views } from './views.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  quietViews,
  startTestServer,
  type TestServer,
  testSettings,
  testTenant,
} from './testing/test-server.ts';

const METRIC = 'tenant_instance_hours';
const OCTOBER = Date.UTC(2026, 9);
const DAY = 86_400_000;

const used = (tenant: string, day: number, quantity: string): UsageEvent =>
  testEvent({ tenant, quantity, windowStart: OCTOBER + day * DAY });

/** October was measured from its first hour on; its last window is closed. */
const EVENTS = [used('acme', 0, '1'), used('acme', 2, '0.333'), used('burst', 2, '3')];
const OVER = Date.UTC(2026, 10, 1, 0, 1);

async function withServer(
  {
    events = EVENTS,
    windowEnd = OVER,
    views,
  }: {
    readonly events?: readonly UsageEvent[];
    readonly windowEnd?: number;
    readonly views?: Partial<Views>;
  },
  work: (server: TestServer) => Promise<void>,
): Promise<void> {
  const ledger = createMemoryLedger();
  await ledger.append({ events, windowEnd });
  const usageDirectory = await mkdtemp(join(tmpdir(), 'focus-'));
  const books = [bookOf([priceOf(METRIC, flat(0.025))])];
  const settings = { ...testSettings(), pricing: { books } };
  const tenants = [testTenant('acme'), testTenant('burst')];
  const server = await startTestServer({
    ledger,
    usageDirectory,
    views: {
      settings: () => settings,
      discovery: quietDiscovery({ tenants: () => tenants }),
      ...views,
    },
  });
  try {
    await work(server);
  } finally {
    await server.close();
    await rm(usageDirectory, { recursive: true });
  }
}

/** The rows of plain CSV without quotes in the columns that are asked for. */
function columns(text: string, ...names: readonly string[]): string[][] {
  const [head = '', ...lines] = text.trimEnd().split('\r\n');
  const at = names.map((name) => head.split(',').indexOf(name));
  // Quoted cells stand for one text each, so that their commas do not count.
  const cells = lines.map((line) => line.replaceAll(/"(?:[^"]|"")*"/g, '"').split(','));
  return cells.map((row) => at.map((index) => row[index] ?? '?'));
}

describe('GET /api/v1/focus', () => {
  test('gives the rows of a closed month, whose costs are those of /costs', async () => {
    await withServer({}, async (server) => {
      const { status, headers, text } = await server.call('GET', '/api/v1/focus?month=2026-10', {
        token,
      });
      expect(status).toBe(200);
      expect(headers.get('content-disposition')).toContain('focus-1.2_2026-10-01_2026-10-31.csv');
      expect(columns(text, 'BillingAccountId', 'ChargePeriodStart', 'BilledCost')).toStrictEqual([
        ['acme', '2026-10-01T00:00:00Z', '0.025'],
        ['acme', '2026-10-03T00:00:00Z', '0.008325'],
        ['burst', '2026-10-03T00:00:00Z', '0.075'],
        ['acme', '2026-10-01T00:00:00Z', '-0.003325'],
        ['burst', '2026-10-01T00:00:00Z', '0.005'],
      ]);
      const range = 'from=2026-10-01&to=2026-11-01';
      const costs = await server.call('GET', `/api/v1/costs?${range}`, { token });
      expect(costs.json).toMatchObject({ rows: [{ cost: 0.03 }, { cost: 0.08 }] });
    });
  });

  test('has corrections as rows of their own', async () => {
    const [first = used('x', 0, '1')] = EVENTS;
    const wrong = { reason: 'faulty node', author: 'ann' };
    const corrected = { event: first, sequence: 1 };
    const correction = correctionOf(corrected, 1, -400_000_000n, '2026-11-03T00:00:00Z', wrong);
    await withServer({ events: [...EVENTS, correction] }, async (server) => {
      const { text } = await server.call('GET', '/api/v1/focus?month=2026-10&tenant=acme', {
        token,
      });
      expect(columns(text, 'ConsumedQuantity', 'BilledCost', 'x_Source')).toStrictEqual([
        ['1.0', '0.025', 'collector'],
        ['-0.4', '-0.01', 'correction'],
        ['0.333', '0.008325', 'collector'],
        ['', '-0.003325', ''],
      ]);
    });
  });

  test('describes the file in a manifest: hash, sums, unpriced usage, gaps', async () => {
    const gap = {
      source: 'pods',
      scope: 'pods',
      from: OCTOBER,
      to: OCTOBER + 60_000,
      reason: 'down',
    };
    const strange: UsageEvent = {
      ...used('acme', 3, '7'),
      id: 'x-1',
      metric: 'tokens_used',
      unit: 'tokens',
    };
    const metering = { ...quietViews(() => testSettings()).metering, gaps: () => [gap] };
    const events = [...EVENTS, strange];
    await withServer({ events, views: { metering } }, async (server) => {
      const views = await server.call('GET', '/api/v1/focus?month=2026-10&format=manifest', {
        token,
      });
      const { text } = await server.call('GET', '/api/v1/focus?month=2026-10', { token });
      expect(views.json).toMatchObject({
        month: '2026-10',
        period_status: 'Closed',
        complete: false,
        files: [
          {
            name: 'focus-1.2_2026-10-01_2026-10-31.csv',
            rows: 5,
            bytes: Buffer.byteLength(text),
            sha256: createHash('sha256').update(text).digest('hex'),
          },
        ],
        sums: {
          charged: [
            { tenant: 'acme', metric: METRIC, currency: 'EUR', quantity: '1.333', cost: '0.03' },
            { tenant: 'burst', quantity: '3.0', cost: '0.08' },
          ],
          unpriced: [{ tenant: 'acme', metric: 'tokens_used', unit: 'Tokens', quantity: '7.0' }],
        },
        gaps: { open: [], ended: [{ source: 'pods', reason: 'down', seconds: 60 }] },
      });
    });
  });

  test('gives the same rows in the columns of 1.4, in which no buyer finds a removed one', async () => {
    await withServer({}, async (server) => {
      const call = (query: string) =>
        server.call('GET', `/api/v1/focus?month=2026-10${query}`, { token });
      const [old, { text, headers }] = [await call(''), await call('&version=1.4')];
      expect(headers.get('content-disposition')).toContain('focus-1.4_2026-10-01_2026-10-31.csv');
      const namesOf = (file: string): readonly string[] =>
        file.split('\r\n', 1)[0]?.split(',') ?? [];
      const [before, after] = [namesOf(old.text), namesOf(text)];
      expect(before.filter((name) => !after.includes(name))).toStrictEqual([
        'ProviderName',
        'PublisherName',
      ]);
      const added = ['CommitmentProgramEligibilityDetails', 'InvoiceDetailId'];
      expect(after.filter((name) => !before.includes(name))).toStrictEqual(added);
      const both = before.filter((name) => after.includes(name));
      expect(columns(text, ...both)).toStrictEqual(columns(old.text, ...both));
      expect(new Set(columns(text, ...added).flat())).toStrictEqual(new Set(['']));
      const { json } = await call('&version=1.4&format=manifest');
      expect(json).toMatchObject({
        focus_version: '1.4',
        files: [{ bytes: Buffer.byteLength(text) }],
        schema: {
          SchemaId: expect.stringMatching(/^meterfeed-focus-1\.4-/),
          FocusVersion: '1.4',
          ColumnDefinition: after.map((name) => expect.objectContaining({ ColumnName: name })),
        },
      });
      const unknown = await call('&version=1.3');
      expect([unknown.status, unknown.text]).toStrictEqual([
        400,
        expect.stringContaining('use 1.2 or 1.4'),
      ]);
    });
  });

  test.each([
    ['month=2026-13', 'not a month: month: "2026-13"'],
    ['month=2027-01', 'a month that has not begun'],
    [
      'month=2026-09',
      'nothing was measured in the month: month: "2026-09": it began on 2026-10-01T00:00:00Z',
    ],
    ['', 'not a month: month: ""'],
  ])('refuses a month that is not known, and says why: %s', async (query, why) => {
    await withServer({}, async (server) => {
      const { status, json } = await server.call('GET', `/api/v1/focus?${query}`, { token });
      expect(status).toBe(400);
      expect(json).toMatchObject({ error: expect.stringContaining(why) });
    });
  });

  test('refuses hours that are no longer stored, before a byte of a short file is sent', async () => {
    const events = [
      testEvent({ tenant: 'acme', quantity: '1', windowStart: Date.UTC(2026, 7, 1) }),
    ];
    await withServer({ events }, async (server) => {
      const hours = await server.call('GET', '/api/v1/focus?month=2026-08', { token });
      expect([hours.status, hours.text]).toStrictEqual([
        400,
        expect.stringContaining('add grain=day'),
      ]);
      const days = await server.call('GET', '/api/v1/focus?month=2026-08&grain=day', { token });
      expect(columns(days.text, 'ChargePeriodEnd', 'BilledCost')[0]).toStrictEqual([
        '2026-08-02T00:00:00Z',
        '0.025',
      ]);
    });
  });

  test('answers 503 while prices or tenants are unknown: a file without them would be wrong', async () => {
    const unread: Partial<Views> = { pricesKnown: () => false };
    const undiscovered: Partial<Views> = { discovery: quietDiscovery({ known: () => false }) };
    for (const views of [unread, undiscovered]) {
      await withServer({ views }, async (server) => {
        const { status } = await server.call('GET', '/api/v1/focus?month=2026-10', { token });
        expect(status).toBe(503);
      });
    }
  });

  test('has no rounding while windows of the month are not closed', async () => {
    await withServer({ windowEnd: Date.UTC(2026, 9, 31) }, async (server) => {
      const { text } = await server.call('GET', '/api/v1/focus?month=2026-10', { token });
      expect(columns(text, 'ChargeCategory').flat()).toStrictEqual(['Usage', 'Usage', 'Usage']);
    });
  });

  test('gives a tenant its own rows, sums and gaps only', async () => {
    await using world = await twoTenants();
    const { token: portal } = await world.mint();
    const path = '/api/v1/focus?month=2026-11&format=';
    const [csv, manifest] = await Promise.all(
      ['csv', 'manifest'].map((one) =>
        world.server.call('GET', `${path}${one}`, { token: portal }),
      ),
    );
    expect(new Set(columns(csv?.text ?? '', 'BillingAccountId').flat())).toStrictEqual(
      new Set([OWN]),
    );
    expect(manifest?.json).toMatchObject({
      sums: { charged: [{ tenant: OWN, quantity: '6.0' }] },
      gaps: { ended: [{ scopes: expect.arrayContaining(['own-cluster']) }] },
    });
    expect(csv?.text).not.toContain(CANARY);
    expect(manifest?.text).not.toContain(CANARY);
    const other = `${path}csv&tenant=${encodeURIComponent(FOREIGN[0] ?? '')}`;
    expect((await world.server.call('GET', other, { token: portal })).status).toBe(403);
  });
});
