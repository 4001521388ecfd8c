import { expect, test } from 'vitest';
import type { PricesOutcome, PricesQuery } from '../../destinations/prices.ts';
import type { PriceBook } from '../../model/price-book.ts';
import type { PriceDifference } from '../../model/pricing/compare.ts';
import { bookOf, flat, priceOf } from '../../model/pricing/testing/price-books.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { PriceWatch } from './price-watch.ts';

const HOUR_MS = 3_600_000;
const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const { signal: NEVER } = new AbortController();

function answered(differences: readonly PriceDifference[], exists = true): PricesOutcome {
  const book = { book: 'gold', currency: 'EUR', plan: 'gold', exists, differences };
  return { kind: 'compared', books: [book] };
}

/** A destination that is given GPU-hours only, and answers as it is told. */
async function watched() {
  const clock = createVirtualClock();
  const requested: PricesQuery[] = [];
  let answer = answered([]);
  const destination = Object.assign(createFakeDestination({ now: () => clock.now() }), {
    prices: {
      compare: async (query: PricesQuery) => {
        requested.push(query);
        return answer;
      },
      unpriced: () => [],
    },
  });
  const harness = createHarness({ clock, destination });
  await harness.start({ metrics: { include: [GPU] } });
  await clock.until(() => harness.delivery.status('fake')?.bootstrapped === true);
  let books: readonly PriceBook[] = [
    bookOf([priceOf(GPU, flat(2)), priceOf(LB, flat(1))]),
    bookOf([priceOf(LB, flat(1))], { name: 'no-gpus' }),
  ];
  const logger = createMemoryLogger();
  const { delivery, registry } = harness;
  const prices = () => ({ books, defaultPlan: 'tenant-standard' });
  const listeners = new Set<() => void>();
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const watch = new PriceWatch({ delivery, prices, subscribe, clock, logger, registry });
  const stopping = new AbortController();
  const running = watch.run(stopping.signal);
  await clock.until(() => requested.length > 0);
  return {
    harness,
    clock,
    requested,
    watch,
    logger,
    setBooks: (next: readonly PriceBook[]) => {
      books = next;
      for (const listener of listeners) listener();
    },
    setAnswer: (next: PricesOutcome) => {
      answer = next;
    },
    stop: async () => {
      stopping.abort();
      await running;
      await harness.stop();
    },
  };
}

const DIFFERENCES: readonly PriceDifference[] = [
  { kind: 'same', price: 'a', place: 'a', id: '1' },
  ...['b', 'c', 'd', 'e'].map(
    (price) => ({ kind: 'create', price, place: price, wanted: flat(2) }) as const,
  ),
];

test('a destination is queried for the prices of what it is sent, and nothing else', async () => {
  const { requested, stop } = await watched();
  expect(requested).toHaveLength(1);
  const [meant, ...others] = requested[0]?.books ?? [];
  expect(others).toStrictEqual([]);
  expect(meant?.book.prices.map(({ metric }) => metric)).toStrictEqual([GPU]);
  expect([...(requested[0]?.metrics ?? [])]).toStrictEqual([GPU]);
  expect(meant?.isDefault).toBe(true);
  await stop();
});

test('prices that differ are reported until they are as they should be', async () => {
  const world = await watched();
  const { clock, watch, harness, logger, setAnswer, requested, stop } = world;
  await clock.until(() => watch.reportOf('fake') !== undefined);
  expect(watch.reportOf('fake')).toStrictEqual({ differing: 0, examples: [] });
  setAnswer(answered(DIFFERENCES));
  await clock.until(() => requested.length > 1);
  await clock.until(() => watch.reportOf('fake')?.differing === 4);
  expect(watch.reportOf('fake')?.examples).toStrictEqual([
    'plan "gold": b has no price: 2 by "b"',
    'plan "gold": c has no price: 2 by "c"',
    'plan "gold": d has no price: 2 by "d"',
  ]);
  expect(await harness.registry.metrics()).toContain(
    'meterfeed_destination_price_differences{destination="fake"} 4',
  );
  expect(logger.lines.join('\n')).toContain('4 prices differ from the PriceBooks: plan "gold": b');

  // What could not be read says nothing new.
  setAnswer({ kind: 'failed', reason: 'it is down' });
  await clock.until(() => requested.length > 2);
  await clock.until(() => requested.length > 4);
  const failures = logger.lines.filter((line) => line.includes('it is down'));
  expect(failures).toHaveLength(1);
  expect(watch.reportOf('fake')?.differing).toBe(4);
  setAnswer(answered([]));
  await clock.until(() => watch.reportOf('fake')?.differing === 0);
  await stop();
});

test('prices are compared every hour, and at once when a book changes', async () => {
  const { clock, requested, setBooks, stop } = await watched();
  const began = clock.now();
  await clock.until(() => requested.length > 1);
  expect(clock.now() - began).toBeGreaterThanOrEqual(HOUR_MS - 60_000);
  const changed = clock.now();
  setBooks([bookOf([priceOf(GPU, flat(3))])]);
  await clock.until(() => requested.length > 2);
  expect(clock.now() - changed).toBeLessThanOrEqual(1_000);
  await stop();
});

test('a plan that is not there, and one that nobody has a book for, differ in nothing', async () => {
  const { clock, watch, setAnswer, setBooks, requested, stop } = await watched();
  setAnswer(answered(DIFFERENCES, false));
  await clock.until(() => requested.length > 1);
  await clock.until(() => watch.reportOf('fake') === undefined);
  setAnswer(answered(DIFFERENCES));
  await clock.until(() => watch.reportOf('fake') !== undefined);
  setBooks([]);
  await clock.until(() => watch.reportOf('fake') === undefined);
  await stop();
});

test('what makes no invoices has no prices, and what cannot start says why', async () => {
  const harness = createHarness({
    existing: () => [
      { name: 'lost', type: 'lago', suspend: false, problem: { reason: 'X', message: 'no key' } },
    ],
  });
  await harness.start();
  const question = { books: [], defaultPlan: 'a', day: '2026-11-21' };
  const pricesOf = (name: string) => harness.delivery.comparePrices(name, question, NEVER);
  expect(await pricesOf('fake')).toStrictEqual({ kind: 'no-prices', type: 'webhook' });
  expect(await pricesOf('lost')).toStrictEqual({ kind: 'unusable', reason: 'no key' });
  expect(await pricesOf('nobody')).toStrictEqual({ kind: 'unknown-destination' });
  await harness.stop();
});
