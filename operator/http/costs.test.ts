import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { PriceBook } from '../model/price-book.ts';
import { bookOf, flat, priceOf, tiered } from '../model/pricing/testing/price-books.ts';
import { planRecordKey } from '../billing/usage/plan-history.ts';
import { newKey } from './portal/testing/keys.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  type TestServer,
  testSettings,
  testTenant,
} from './testing/test-server.ts';

const METRIC = 'tenant_instance_hours';
const NOVEMBER = 'from=2026-11-01&to=2026-12-01';

/** One event for each hour of some hours of a day of November. */
function hours(tenant: string, day: number, count: number, quantity: string): UsageEvent[] {
  return Array.from({ length: count }, (_, hour) =>
    testEvent({ tenant, quantity, windowStart: Date.UTC(2026, 10, day, hour) }),
  );
}

/** A server whose tenants `acme` and `burst` are on the default plan, and `gold` on another. */
async function priced(
  books: readonly PriceBook[],
  events: readonly UsageEvent[],
  usageDirectory?: string,
): Promise<TestServer> {
  const ledger = createMemoryLedger();
  await ledger.append({ events });
  const tenants = [testTenant('acme'), testTenant('burst'), testTenant('gold', { plan: 'gold' })];
  const settings = { ...testSettings(), pricing: { books } };
  return startTestServer({
    ledger,
    views: { settings: () => settings, discovery: quietDiscovery({ tenants: () => tenants }) },
    usageDirectory,
  });
}

const hourly = bookOf([priceOf(METRIC, flat(0.025))]);

describe('costs', () => {
  test('are those of the plan that a tenant is on, and add up to their totals', async () => {
    const gold = bookOf([priceOf(METRIC, flat(400))], { name: 'gold', currency: 'JPY' });
    const events = [
      ...hours('acme', 2, 3, '1'),
      ...hours('burst', 2, 1, '0.333'),
      ...hours('gold', 3, 2, '1'),
    ];
    await using server = await priced([hourly, gold], events);
    const { text, json } = await server.call('GET', `/api/v1/costs?${NOVEMBER}`, { token });
    expect(json).toMatchObject({
      group_by: ['tenant'],
      events: 6,
      amounts: [
        { currency: 'EUR', digits: 2, cost: 0.09 },
        { currency: 'JPY', digits: 0, cost: 800 },
      ],
      rows: [
        { tenant: 'acme', metric: METRIC, currency: 'EUR', events: 3, quantity: 3, cost: 0.08 },
        { tenant: 'burst', currency: 'EUR', quantity: 0.333, cost: 0.01 },
        { tenant: 'gold', currency: 'JPY', quantity: 2, cost: 800 },
      ],
    });
    expect(text).toContain('"quantity":3.333,"cost":0.09');
    expect(text).not.toContain('unpriced');
    expect(text).not.toContain('plans_without_prices');
  });

  test('of usage without a price are absent, not zero', async () => {
    await using server = await priced([], hours('acme', 2, 2, '1.5'));
    const { text, json } = await server.call('GET', `/api/v1/costs?${NOVEMBER}`, { token });
    expect(json).toMatchObject({
      amounts: [],
      plans_without_prices: ['tenant-standard'],
      rows: [{ quantity: 3, unpriced: 3 }],
    });
    expect(text).not.toContain('cost"');
  });

  test('of a tenant that nobody knows are not guessed', async () => {
    await using server = await priced([hourly], hours('gone', 2, 1, '1'));
    const { json } = await server.call('GET', `/api/v1/costs?${NOVEMBER}`, { token });
    expect(json).toMatchObject({ amounts: [], rows: [{ tenant: 'gone', unpriced: 1 }] });
  });

  test('of days before a change of plan stay, and so do those of a tenant that left', async () => {
    const gold = bookOf([priceOf(METRIC, flat(5))], { name: 'gold' });
    const events = [
      ...hours('gold', 2, 1, '1'),
      ...hours('gold', 9, 1, '1'),
      ...hours('gone', 2, 1, '1'),
    ];
    await using server = await priced([hourly, gold], events);
    await server.ledger.writeRecords([
      { key: planRecordKey('gold'), value: '[["","tenant-standard"],["2026-11-09","gold"]]' },
      { key: planRecordKey('gone'), value: '[["","gold"]]' },
    ]);
    const path = `/api/v1/costs?${NOVEMBER}&group_by=tenant,day`;
    expect((await server.call('GET', path, { token })).json).toMatchObject({
      rows: [
        { tenant: 'gold', day: '2026-11-02', cost: 0.03 },
        { tenant: 'gold', day: '2026-11-09', cost: 5 },
        { tenant: 'gone', day: '2026-11-02', cost: 5 },
      ],
    });
  });

  test('change with the price on its day, not before', async () => {
    const rates = [
      { from: '2026-01-01', charge: flat(2) },
      { from: '2026-11-03', charge: flat(3) },
    ];
    const events = [2, 3, 4].flatMap((day) => hours('acme', day, 1, '1'));
    await using server = await priced([bookOf([priceOf(METRIC, flat(2), { rates })])], events);
    const path = `/api/v1/costs?${NOVEMBER}&group_by=day`;
    const { json } = await server.call('GET', path, { token });
    expect(json).toMatchObject({
      amounts: [{ cost: 8 }],
      rows: [
        { day: '2026-11-02', cost: 2 },
        { day: '2026-11-03', cost: 3 },
        { day: '2026-11-04', cost: 3 },
      ],
    });
  });

  test('of a day count the tiers by its month, from kept sums as from the ledger', async () => {
    const book = bookOf([priceOf(METRIC, tiered('graduated', [[10, 3]], 1))]);
    const events = [...hours('acme', 2, 10, '1'), ...hours('acme', 3, 10, '3')];
    const path = '/api/v1/costs?from=2026-11-03&to=2026-11-04';
    const directory = await mkdtemp(join(tmpdir(), 'costs-'));
    for (const usageDirectory of [undefined, directory]) {
      await using server = await priced([book], events, usageDirectory);
      const { json } = await server.call('GET', path, { token });
      expect(json).toMatchObject({ amounts: [{ currency: 'EUR', cost: 45 }] });
    }
    await rm(directory, { recursive: true });
  });

  test('leave out what is charged nowhere, instead of telling that it has no price', async () => {
    const utilisation: UsageEvent = {
      ...testEvent({ tenant: 'acme', windowStart: Date.UTC(2026, 10, 2) }),
      metric: 'tenant_gpu_utilization',
    };
    await using server = await priced([hourly], [utilisation]);
    const { json } = await server.call('GET', `/api/v1/costs?${NOVEMBER}`, { token });
    expect(json).toMatchObject({ rows: [], totals: [] });
  });

  test('by price are the lines of invoices, also where there is none', async () => {
    for (const books of [[hourly], []]) {
      await using server = await priced(books, hours('acme', 2, 4, '1'));
      const path = `/api/v1/costs?${NOVEMBER}&group_by=tenant,price&format=csv`;
      const { text } = await server.call('GET', path, { token });
      const [, line] = text.split('\r\n');
      const without = `acme,,${METRIC},hours,,4,4,,4`;
      expect(line).toBe(
        books.length === 0 ? without : `acme,${METRIC},${METRIC},hours,EUR,4,,0.10,4`,
      );
    }
  });

  test('come as CSV and NDJSON with every digit', async () => {
    await using server = await priced([hourly], hours('acme', 2, 4, '1'));
    const exportAs = (format: string) =>
      server.call('GET', `/api/v1/costs?${NOVEMBER}&format=${format}`, { token });
    const csv = await exportAs('csv');
    expect(csv.headers.get('content-disposition')).toContain('costs_2026-11-01_2026-11-21_EUR.csv');
    expect(csv.text.split('\r\n')).toStrictEqual([
      'tenant,metric,unit,currency,quantity,unpriced,cost,events',
      `acme,${METRIC},hours,EUR,4,,0.10,4`,
      '',
    ]);
    const lines = (await exportAs('ndjson')).text.split('\n');
    expect(lines).toStrictEqual([
      `{"tenant":"acme","metric":"${METRIC}","unit":"hours","currency":"EUR","events":4,"quantity":4,"cost":0.10}`,
      '',
    ]);
  });

  test.each([
    ['group_by=currency', 'a field of every row of costs: group_by: "currency"'],
    ['group_by=window', 'too long a range by window'],
    ['plan=gold', 'unknown query parameter'],
    ['format=xml', 'unknown format: "xml": use json or csv or ndjson'],
    ['group_by=flavour&format=csv', 'no event of the range has it'],
  ])('requested with %s are refused, saying why', async (parameter, reason) => {
    await using server = await priced([hourly], hours('acme', 2, 1, '1'));
    const path = `/api/v1/costs?${NOVEMBER}&${parameter}`;
    const { status, text } = await server.call('GET', path, { token });
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({ error: expect.stringContaining(reason) });
  });

  test('are not shown as without a price while prices have not been read', async () => {
    await using server = await startTestServer({ views: { pricesKnown: () => false } });
    const { status, text, headers } = await server.call('GET', '/api/v1/costs', { token });
    expect(status).toBe(503);
    expect(headers.get('retry-after')).toBe('5');
    expect(text).toContain('PriceBooks have not been read yet');
  });

  test('of a moment ago will do for dashboards, until prices change', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: hours('acme', 2, 1, '1') });
    const dear = bookOf([priceOf(METRIC, flat(7))]);
    let settings = { ...testSettings(), pricing: { books: [hourly] } };
    const discovery = quietDiscovery({ tenants: () => [testTenant('acme')] });
    await using server = await startTestServer({
      ledger,
      views: { settings: () => settings, discovery },
    });
    const getCosts = async (headers: Record<string, string> = {}): Promise<unknown> =>
      (await server.call('GET', `/api/v1/costs?${NOVEMBER}`, { token, headers })).json;
    const patient = { 'cache-control': 'max-age=30' };
    expect(await getCosts(patient)).toMatchObject({ events: 1, amounts: [{ cost: 0.03 }] });
    await ledger.append({ events: hours('acme', 3, 1, '1') });
    expect(await getCosts(patient)).toMatchObject({ events: 1, amounts: [{ cost: 0.03 }] });
    expect(await getCosts()).toMatchObject({ events: 2, amounts: [{ cost: 0.05 }] });
    settings = { ...settings, pricing: { books: [dear] } };
    expect(await getCosts(patient)).toMatchObject({ events: 2, amounts: [{ cost: 14 }] });
  });

  test('of tokens in GPUs are shown by tenant and model, to the provider alone', async () => {
    const of = (
      metric: string,
      unit: string,
      quantity: string,
      day: number,
      dimensions: Record<string, string> = {},
    ): UsageEvent => ({
      ...testEvent({ tenant: 'acme', quantity, windowStart: Date.UTC(2026, 10, day) }),
      metric,
      unit,
      dimensions,
    });
    const ledger = createMemoryLedger();
    await ledger.append({
      events: [
        of('tenant_gpu_hours', 'gpu-hours', '0.1', 2),
        of('tenant_inference_tokens', 'tokens', '1000000', 3, { model: 'llama' }),
        of('tenant_inference_tokens', 'tokens', '2000000', 4, { model: 'qwen' }),
      ],
    });
    const priced = { match: { model: 'llama' } };
    const prices = [
      priceOf('tenant_gpu_hours', flat(10)),
      priceOf('tenant_inference_tokens', flat(0.000_005), priced),
    ];
    const settings = {
      ...testSettings({ PORTAL_KEYS: newKey() }),
      pricing: { books: [bookOf(prices)] },
    };
    const tenants = [testTenant('acme')];
    await using server = await startTestServer({
      ledger,
      views: {
        settings: () => settings,
        discovery: quietDiscovery({ tenants: () => tenants }),
      },
    });
    const path = `/api/v1/costs?${NOVEMBER}&group_by=model,tenant`;
    const { text } = await server.call('GET', path, { token });
    const [, shown] = /"token_costs":(\[.*\]),"rows"/.exec(text) ?? [];
    expect(shown).toBe(
      '[{"tenant":"acme","model":"llama","currency":"EUR","tokens":1000000,"gpu_cost":0.33,"gpu_cost_per_million":0.333333333,"price_per_million":5,"margin":4.67},' +
        '{"tenant":"acme","model":"qwen","currency":"EUR","tokens":2000000,"gpu_cost":0.67,"gpu_cost_per_million":0.333333333}]',
    );
    const others = [`${path}&sku=h100`, `/api/v1/costs?${NOVEMBER}`, `${path}&format=ndjson`];
    for (const other of others) {
      expect((await server.call('GET', other, { token })).text).not.toContain('gpu_cost');
    }
    const portal = await server.call('POST', '/api/v1/tenants/acme/portal-tokens', {
      token,
      body: { valid_for: '1h' },
    });
    const ofTenant = (portal.json as { token: string }).token;
    const answer = await server.call('GET', path, { token: ofTenant });
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('"cost":1.00');
    expect(answer.text).not.toContain('token_costs');
  });

  test('are shown to nobody without a token', async () => {
    await using server = await priced([hourly], []);
    expect((await server.call('GET', '/api/v1/costs')).status).toBe(401);
  });
});
