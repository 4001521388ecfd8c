import { afterEach, expect, test } from 'vitest';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { testEvent } from '../../operator/ledger/testing/events.ts';
import {
  createLagoWorld,
  LAGO_METRICS,
  LAGO_NOW,
  type LagoWorld,
  NEVER,
} from '../../operator/destinations/lago/testing/lago-world.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  testSettings,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import { billsOf } from '../fakes/lago/invoices.ts';
import { setUpPlan, standardPrices } from './local-plan.ts';
import { billLines, type CostAnswer, costLines } from './testing/money-lines.ts';

const worlds: LagoWorld[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/** A Lago of a demo that starts on a day, and the operator's side of it. */
async function startDemo(day: string) {
  const { book } = await standardPrices();
  const world = await createLagoWorld({}, { currency: book.currency });
  worlds.push(world);
  const access = { url: world.lago.url, apiKey: 'key' };
  await setUpPlan(access, book, day);
  return { world, book, access };
}

async function differences({ world, book }: Awaited<ReturnType<typeof startDemo>>, day: string) {
  const outcome = await world.destination.prices.compare(
    {
      books: [{ book, isDefault: true }],
      metrics: new Set(LAGO_METRICS.map(({ code }) => code)),
      day,
    },
    NEVER,
  );
  if (outcome?.kind !== 'compared') throw new Error(JSON.stringify(outcome));
  return outcome.books.flatMap((one) => one.differences.map(({ kind }) => kind));
}

test('finance sees another amount in the billing system than in the dashboard', async () => {
  const demo = await startDemo('2026-11-21');
  const { world, book } = demo;
  const tenants = [testTenant('acme'), testTenant('burst'), testTenant('gold')];
  await world.ready(...tenants);
  // Egress is free, in the first tier, and beyond it; every price has usage of each tenant that comes to fractions of a cent.
  const events = tenants.flatMap(({ id: tenant }, index) => {
    const of = (metric: string, quantity: string, more: Partial<UsageEvent> = {}): UsageEvent => ({
      ...testEvent({ tenant, quantity, id: `${tenant} ${metric} ${JSON.stringify(more)}` }),
      metric,
      ...more,
    });
    const metrics = new Set(book.prices.map(({ metric }) => metric));
    metrics.delete('tenant_network_egress_gb');
    return [
      ...[...metrics].map((metric, place) => of(metric, `${index + place}.333333333`)),
      of('tenant_gpu_hours', '0.459090909', { dimensions: { capacity_type: 'spot' } }),
      ...['input', 'output'].map((token_type) =>
        of('tenant_inference_tokens', `${1_234_567 + index}`, {
          dimensions: { model: 'llama-3.3-70b', token_type },
        }),
      ),
      of('tenant_network_egress_gb', ['99.5', '100.0625', '1234.567'][index] ?? ''),
    ];
  });
  await world.destination.send(events, NEVER);

  const ledger = createMemoryLedger();
  await ledger.append({ events });
  const settings = { ...testSettings(), pricing: { books: [book] } };
  await using server = await startTestServer({
    ledger,
    views: { settings: () => settings, discovery: quietDiscovery({ tenants: () => tenants }) },
  });
  const path = '/api/v1/costs?from=2026-11-01&to=2026-12-01&group_by=tenant,price';
  const { json } = await server.call('GET', path, { token });
  const costs = costLines(json as CostAnswer);
  expect(costs).toHaveLength(tenants.length * book.prices.length);
  expect(costs.filter(({ amount }) => !/^\d+\.\d\d EUR$/.test(amount))).toEqual([]);
  expect(billLines(billsOf(world.lago.state, LAGO_NOW))).toStrictEqual(costs);
  expect(world.destination.prices.unpriced()).toStrictEqual([]);
});

test('a demo that is started again in December bills by the prices of November', async () => {
  const demo = await startDemo('2026-11-30');
  expect(new Set(await differences(demo, '2026-11-30'))).toStrictEqual(new Set(['same']));
  expect(await differences(demo, '2026-12-01')).toContain('change');
  await setUpPlan(demo.access, demo.book, '2026-12-01');
  expect(new Set(await differences(demo, '2026-12-01'))).toStrictEqual(new Set(['same']));
});

test('a plan of an earlier demo that is in another currency is priced as if it were in this one', async () => {
  const demo = await startDemo('2026-11-21');
  const dollars = { ...demo.book, currency: 'USD' };
  await expect(setUpPlan(demo.access, dollars, '2026-11-21')).rejects.toThrow(
    'plan "tenant-standard" is in EUR, and its prices are in USD: `make clean` forgets the plan',
  );
});
