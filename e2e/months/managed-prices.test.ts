import { describe, expect, test } from 'vitest';
import { testTenant as billedTenant } from '../../operator/destinations/testing/context.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  testSettings,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import { testEvent } from '../../operator/ledger/testing/events.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import { omitUndefined } from '../../operator/model/omit-undefined.ts';
import type { Price, PriceBook } from '../../operator/model/price-book.ts';
import { formatInstant } from '../../operator/model/window.ts';
import { flat, tiered } from '../../operator/pricing/testing/price-books.ts';
import type { Account } from '../fakes/account.ts';
import { exact, sum, times, whole } from '../fakes/exact.ts';
import { time } from '../fakes/vectors.ts';
import { type Engine, startEngine } from './engine.ts';
import { type MonthVendor, startLago, startMetronome, startStripe } from './vendors.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const STORAGE = 'tenant_storage_gb_hours';
const { signal: NEVER } = new AbortController();

/**
 * H100s become dearer on the 15th, spot is withdrawn on the 20th, which leaves it to the price of any GPU, and so is storage,
 * which leaves it to none; load balancers have tiers all the month.
 */
const prices: readonly Price[] = [
  priceOf('h100', { sku: 'h100' }, [
    { from: '2026-12-01', charge: flat(2.4) },
    { from: '2027-01-15', charge: flat(2.99) },
  ]),
  priceOf('h100-spot', { sku: 'h100', capacity_type: 'spot' }, [
    { from: '2026-12-01', charge: flat(1.13) },
    { from: '2027-01-20' },
  ]),
  priceOf('gpu', {}, [{ from: '2026-12-01', charge: flat(0.5) }]),
  {
    ...priceOf('lb', {}, [
      { from: '2026-12-01', charge: tiered('graduated', [[20, 0.08]], 0.05, 5) },
    ]),
    metric: LB,
  },
  {
    ...priceOf('storage', {}, [{ from: '2026-12-01', charge: flat(0.07) }, { from: '2027-01-20' }]),
    metric: STORAGE,
  },
];
const BOOK: PriceBook = { name: 'a', currency: 'USD', prices };

function priceOf(name: string, match: Price['match'], rates: Price['rates']): Price {
  return { name, metric: GPU, match, rates };
}

/**
 * An event of every kind of usage each six hours, some of which come late: by so long that prices have changed meanwhile.
 * Quantities are whole, so that no line has a fraction of a cent.
 */
function usageOfJanuary(
  lateMs: number,
): readonly { readonly at: number; readonly event: UsageEvent }[] {
  const kinds = [
    { metric: GPU, sku: 'h100', capacity_type: 'on-demand' },
    { metric: GPU, sku: 'h100', capacity_type: 'spot' },
    { metric: GPU, sku: 'l4', capacity_type: 'on-demand' },
    { metric: LB },
    { metric: STORAGE },
  ];
  const starts = Array.from({ length: 4 * 30 }, (_, index) => time('01T01') + index * 6 * HOUR_MS);
  return starts.flatMap((start, index) =>
    kinds.map(({ metric, sku, capacity_type }) => {
      const quantity = `${(index % 3) + 1}`;
      const id = `${metric}-${sku}-${capacity_type}-${index}`;
      const made = testEvent({
        id,
        tenant: 'acme',
        quantity,
        windowStart: start,
        ...omitUndefined({ sku }),
      });
      const at = start + (index % 13 === 3 ? lateMs : 2 * MINUTE_MS);
      const dimensions = { ...made.dimensions, ...omitUndefined({ capacity_type }) };
      return { at, event: { ...made, metric, dimensions, recorded_at: formatInstant(at) } };
    }),
  );
}

/** Lives through January with managed prices; what was used, and what became of it. */
async function liveJanuary(vendor: MonthVendor, lateMs: number): Promise<readonly UsageEvent[]> {
  const engine = await startEngine({
    settings: { ...vendor.settings, managePrices: true },
    books: [BOOK],
    beginning: time('01T00') - DAY_MS,
    turnTo: vendor.turnTo,
  });
  try {
    await keepPrices(engine);
    const tenant = billedTenant({ id: 'acme', plan: 'a', createdAt: time('01T00') });
    engine.discover(tenant);
    const usage = usageOfJanuary(lateMs);
    const steps = usage.map(({ at, event }) => ({ at, run: () => engine.append([event]) }));
    for (let at = time('01T00') + 5 * MINUTE_MS; at < time('Feb 03T00'); at += DAY_MS) {
      steps.push({ at, run: () => keepPrices(engine) });
    }
    for (const { at, run } of steps.toSorted((a, b) => a.at - b.at)) {
      await engine.passTo(at);
      await run();
    }
    await engine.passTo(time('Feb 06T00'));
    return usage.map(({ event }) => event);
  } finally {
    await engine.stop();
  }
}

async function keepPrices(engine: Engine): Promise<void> {
  const day = new Date(engine.clock.now()).toISOString().slice(0, 10);
  const question = { books: [BOOK], defaultPlan: 'a', day };
  const outcome = await engine.delivery().managePrices('bills', question, NEVER);
  expect(outcome).toMatchObject({ kind: 'managed', failures: [] });
}

/** What the costs of January come to by the API, in cents. */
async function costsOf(events: readonly UsageEvent[]): Promise<number> {
  const settings = { ...testSettings(), pricing: { books: [BOOK] } };
  const tenants = [testTenant('acme', { plan: 'a' })];
  const ledger = createMemoryLedger();
  await ledger.append({ events });
  await using server = await startTestServer({
    ledger,
    views: { settings: () => settings, discovery: quietDiscovery({ tenants: () => tenants }) },
  });
  const path = '/api/v1/costs?from=2027-01-01&to=2027-02-01&group_by=tenant,price';
  const { json } = await server.call('GET', path, { token });
  const { amounts } = json as { amounts: readonly { readonly cost: number }[] };
  return Math.round((amounts[0]?.cost ?? 0) * 100);
}

/** What all final invoices come to, in cents, each line rounded by itself; only what has no price may be on none. */
function invoiced({ invoices, events }: Account, used: readonly UsageEvent[]): number {
  const isFree = ({ metric, window_start: start }: UsageEvent): boolean =>
    metric === STORAGE && start >= '2027-01-20';
  const free = used.filter(isFree).map(({ quantity }) => quantity);
  const never = events.filter(({ fate }) => fate.kind === 'never').map(({ units }) => units);
  // Lago has them on a line, for nothing.
  expect([[], free.toSorted()]).toContainEqual(never.toSorted());
  const lines = invoices.filter(({ isFinal }) => isFinal).flatMap((invoice) => invoice.lines);
  const cents = lines.map(({ amount }) => whole(times(exact(amount), exact('100'))));
  return whole(sum(cents.map((one) => exact(String(one)))));
}

async function expectAsItCosts(start: () => Promise<MonthVendor>, lateMs: number): Promise<void> {
  const vendor = await start();
  try {
    const events = await liveJanuary(vendor, lateMs);
    const costs = await costsOf(events);
    expect(costs).toBeGreaterThan(100_000);
    expect(invoiced(vendor.account(), events)).toBe(costs);
  } finally {
    await vendor.close();
  }
}

describe('a month with a change of prices in its middle is invoiced as it costs', () => {
  test.for([0, 3])('by Lago with %d days of grace', (graceDays) =>
    expectAsItCosts(() => startLago({ rules: { graceDays } }), 8 * HOUR_MS),
  );

  test('by Metronome', () => expectAsItCosts(startMetronome, 8 * HOUR_MS));

  // What comes later than the change of a subscription is charged by the new price there.
  test('by Stripe where usage comes in time', () =>
    expectAsItCosts(
      () => startStripe({ mode: 'flexible' }, ['sku', 'capacity_type']),
      2 * HOUR_MS,
    ));
});
