import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import type { Ledger } from '../ledger/ledger.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  quietBudgets,
  quietDiscovery,
  startTestServer,
  testTenant,
  type TestServerOptions,
} from './testing/test-server.ts';

const token = API_TOKEN;
const PATH = '/api/v1/tenants/acme/credits';
const CREDIT = { key: 'payment-1', amount: '100.50', currency: 'EUR' };

async function start(options: Partial<TestServerOptions> = {}) {
  const discovery = quietDiscovery({ tenants: () => [testTenant('acme'), testTenant('b')] });
  return startTestServer({ ...options, views: { discovery, ...options.views } });
}

describe('a credit', () => {
  test('answers the same when its answer was lost and it is sent again, and counts once', async () => {
    await using server = await start();
    const body = { ...CREDIT, note: 'by card', reference: 'INV-1' };
    const first = await server.call('POST', PATH, { token, body });
    expect(first).toMatchObject({ status: 200 });
    expect(first.json).toStrictEqual({
      tenant: 'acme',
      key: 'payment-1',
      amount: '100.5',
      currency: 'EUR',
      note: 'by card',
      reference: 'INV-1',
      at: '2026-11-21T09:05:00Z',
    });
    const again = await server.call('POST', PATH, { token, body: { ...body, amount: '100.5' } });
    expect([again.status, again.text]).toStrictEqual([200, first.text]);
    expect((await server.call('GET', PATH, { token })).json).toStrictEqual({
      tenant: 'acme',
      balances: [
        {
          currency: 'EUR',
          credited: '100.5',
          used: '0',
          left: '100.5',
          since: '2026-11-21T09:05:00Z',
        },
      ],
      total: 1,
      credits: [
        {
          key: 'payment-1',
          amount: '100.5',
          currency: 'EUR',
          note: 'by card',
          reference: 'INV-1',
          at: '2026-11-21T09:05:00Z',
        },
      ],
    });
    expect(server.log.filter((line) => line.includes('a tenant was credited'))).toHaveLength(1);
  });

  test.each([
    ['amount', { amount: '100.51' }],
    ['currency', { currency: 'USD' }],
    ['note', { note: 'other' }],
    ['reference', { reference: 'INV-2' }],
  ])('of a known key with another %s is refused, and changes nothing', async (_, change) => {
    await using server = await start();
    await server.call('POST', PATH, { token, body: CREDIT });
    const refused = await server.call('POST', PATH, { token, body: { ...CREDIT, ...change } });
    expect(refused.status).toBe(409);
    expect(refused.text).toContain('it stands for 100.5 EUR');
    const { json } = await server.call('GET', PATH, { token });
    expect(json).toMatchObject({ total: 1, balances: [{ credited: '100.5' }] });
  });

  test('below zero takes credit back, and the balance shows every digit', async () => {
    const used = 3_000_000_000_000_000_000_001n;
    await using server = await start({
      views: { budgets: { ...quietBudgets, prepaidUsed: () => used } },
    });
    await server.call('POST', PATH, { token, body: CREDIT });
    await server.call('POST', PATH, { token, body: { ...CREDIT, key: 'r', amount: '-99.5' } });
    expect((await server.call('GET', PATH, { token })).json).toMatchObject({
      balances: [
        {
          credited: '1',
          used: '3.000000000000000000001',
          left: '-2.000000000000000000001',
        },
      ],
    });
  });

  test.each([
    [{ amount: 100 }, 'not an amount: amount: 100'],
    [{ amount: '1e3' }, 'not an amount'],
    [{ amount: '0.00' }, 'not an amount'],
    [{ amount: '1.0000000001' }, 'not an amount'],
    [{ amount: '1000000000000' }, 'not an amount'],
    [{ key: undefined }, 'missing: key'],
    [{ key: '' }, 'not a text of 1 to 128 characters: key'],
    [{ key: 'a\nb' }, 'not a text of 1 to 128 characters: key'],
    [{ key: '\u{d800}' }, 'not a text of 1 to 128 characters: key'],
    [{ note: 'x'.repeat(257) }, 'not a text of 1 to 256 characters: note'],
    [{ currency: 'eur' }, 'not a currency: currency: \\"eur\\"'],
    [{ currency: 'XAU' }, 'not a currency'],
    [{ metric: 'tenant_gpu_hours' }, 'give one of them: currency, metric'],
    [{ currency: undefined }, 'give one of them: currency, metric'],
    [{ currency: undefined, metric: 'no_such' }, 'not a metric that is charged'],
    [
      { currency: undefined, metric: 'tenant_gpu_utilization_pct_hours' },
      'not a metric that is charged',
    ],
    [{ amuont: '1' }, 'unknown field: \\"amuont\\"'],
  ])('of %j is refused', async (change, reason) => {
    await using server = await start();
    const refused = await server.call('POST', PATH, { token, body: { ...CREDIT, ...change } });
    expect([refused.status, refused.text]).toStrictEqual([400, expect.stringContaining(reason)]);
    expect((await server.call('GET', PATH, { token })).json).toMatchObject({ total: 0 });
  });

  test('in another currency than the prepaid budget counts is refused', async () => {
    const prepaidCounts = () => ({ kind: 'money', currency: 'USD' }) as const;
    await using server = await start({
      views: { budgets: { ...quietBudgets, prepaidCounts } },
    });
    const refused = await server.call('POST', PATH, { token, body: CREDIT });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('credit USD');
  });

  test('of a tenant that nobody knows is refused', async () => {
    await using server = await start();
    const path = '/api/v1/tenants/acme2/credits';
    expect((await server.call('POST', path, { token, body: CREDIT })).status).toBe(404);
    expect((await server.call('GET', path, { token })).status).toBe(404);
  });

  test('needs the token that may change things', async () => {
    await using server = await start();
    const statuses = await Promise.all(
      [undefined, INGEST_TOKEN].map(async (given) => {
        const body = CREDIT;
        const wish = given === undefined ? { body } : { body, token: given };
        return (await server.call('POST', PATH, wish)).status;
      }),
    );
    expect(statuses).toStrictEqual([401, 403]);
  });

  test('that is not on record is not acknowledged', async () => {
    const ledger: Ledger = {
      ...createMemoryLedger(),
      writeRecords: async () => ({ kind: 'failed', cause: 'full', message: 'no room' }),
    };
    await using server = await start({ ledger });
    const refused = await server.call('POST', PATH, { token, body: CREDIT });
    expect(refused.status).toBe(503);
    expect(refused.text).toContain('send it again with the same key');
  });

  test('is shown without its balance by a process that does not count', async () => {
    await using server = await start({
      views: { budgets: { ...quietBudgets, prepaidUsed: () => undefined } },
    });
    await server.call('POST', PATH, { token, body: CREDIT });
    expect((await server.call('GET', PATH, { token })).status).toBe(503);
  });
});
