import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { openTestStream, usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { createStepClock, type StepClock } from '../../ledger/testing/step-clock.ts';
import { useLedgers } from '../../ledger/testing/use-ledgers.ts';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import {
  bookOf,
  flat,
  matches,
  priceOf,
  untiedPrices,
} from '../../model/pricing/testing/price-books.ts';
import { naivelyUsed } from './testing/naive.ts';
import { type PrepaidWorld, startPrepaidWorld, usageOf } from './testing/prepaid-world.ts';

const GPU = 'tenant_gpu_hours';
const LB = 'tenant_lb_hours';
const EUR = { kind: 'money', currency: 'EUR' } as const;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-09-17T05:20:30Z');
const SINCE = Date.parse('2026-09-17T05:20:00Z');
/** How far back usage may still come. */
const LATE_MS = 20 * DAY_MS;

const ledgers = useLedgers();
const postgres = usePostgres();

type OpenWith = (clock: StepClock) => Promise<() => Promise<Ledger>>;

const levelLedgers: OpenWith = async (clock) => {
  const directory = await ledgers.directory();
  const segmentLimits = { events: 2, bytes: Number.MAX_SAFE_INTEGER };
  return () => ledgers.open(directory, { clock, retentionMs: DAY_MS, segmentLimits });
};

const postgresLedgers: OpenWith = async (clock) => {
  const database = await postgres.server().createDatabase();
  return () => openTestStream(database, { clock, retentionMs: DAY_MS });
};

interface Usage {
  readonly agoMs: number;
  readonly windowMs: number;
  readonly nanos: bigint;
  readonly change: Partial<UsageEvent>;
}

type Step =
  | { readonly kind: 'use'; readonly usages: readonly Usage[] }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'round' | 'save' | 'kill' | 'unwritten' | 'unanswered' };

const usages: fc.Arbitrary<Usage> = fc.record({
  agoMs: fc.oneof(
    fc.integer({ min: 0, max: LATE_MS - 1 }),
    fc.integer({ min: 0, max: DAY_MS }),
    fc.integer({ min: 0, max: HOUR_MS }),
  ),
  windowMs: fc.constantFrom(60_000, HOUR_MS),
  nanos: fc.bigInt({ min: 0n, max: 25n }),
  change: fc
    .tuple(fc.constantFrom(GPU, LB), matches)
    .map(([metric, { sku, region, ...dimensions }]) => ({
      metric,
      dimensions,
      sku,
      region,
    })),
});

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.array(usages, { minLength: 1, maxLength: 4 }).map(use) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 12 * DAY_MS }).map(pass) },
  {
    weight: 5,
    arbitrary: fc
      .constantFrom('round', 'save', 'kill', 'unwritten', 'unanswered')
      .map((kind): Step => ({ kind })),
  },
);

function use(used: readonly Usage[]): Step {
  return { kind: 'use', usages: used };
}

function pass(ms: number): Step {
  return { kind: 'pass', ms };
}

/**
 * A ledger in memory that deletes what all cursors have passed and nothing more can be added to,
 * and that fails at will.
 */
function failingLedger(horizon: () => number): Ledger & { mishap?: Step['kind'] } {
  const inner = createMemoryLedger();
  const ledger: Ledger & { mishap?: Step['kind'] } = {
    ...inner,
    head: () => inner.head(),
    stats: () => ({ ...inner.stats(), horizon: horizon() }),
    lowWater: () => inner.cursors()[0]?.sequence ?? 0,
    commitCursor: async (...call) => {
      const { mishap } = ledger;
      delete ledger.mishap;
      if (mishap !== 'unwritten') {
        const outcome = await inner.commitCursor(...call);
        if (mishap === undefined) return outcome;
      }
      return { kind: 'failed', cause: 'retryable', message: 'the answer is lost' };
    },
  };
  return ledger;
}

async function take(world: PrepaidWorld, ledger: ReturnType<typeof failingLedger>, step: Step) {
  if (step.kind === 'kill') await world.kill();
  else if (step.kind === 'pass') await world.clock.advance(step.ms);
  else if (step.kind === 'round' || step.kind === 'save') await world.pass(step.kind === 'save');
  else if (step.kind !== 'use') {
    ledger.mishap = step.kind;
    await world.pass(true).catch(() => undefined);
    delete ledger.mishap;
  }
}

describe('what is used of a prepaid balance', () => {
  test('is ledger × price to the last digit, whatever is killed or not written, and longer than the ledger keeps it', async () => {
    const books = fc
      .tuple(untiedPrices(GPU), untiedPrices(LB))
      .map((prices) => bookOf(prices.flat()));
    const counts = fc.constantFrom(EUR, EUR, { kind: 'metric', metric: GPU } as const);
    await fc.assert(
      fc.asyncProperty(
        fc.record({ book: books, counts, early: fc.array(usages), steps: fc.array(steps) }),
        async ({ book, counts: counted, early, steps: all }) => {
          const stored: UsageEvent[] = [];
          const append = async (used: readonly Usage[], now: number): Promise<void> => {
            const events = used.map(({ agoMs, windowMs, nanos, change }, index) => {
              return usageOf(`e${stored.length + index}`, {
                start: now - agoMs,
                windowMs,
                nanos,
                ...change,
              });
            });
            await ledger.append({ events });
            stored.push(...events);
          };
          const ledger = failingLedger(() => world.clock.now() - LATE_MS - DAY_MS);
          const world = await startPrepaidWorld(ledger, book, { counts: counted, now: NOW });
          await append(early, NOW);
          await world.credit('first', decimalFromNanos(1n));
          await world.pass();
          for (const step of all) {
            if (step.kind === 'use') await append(step.usages, world.clock.now());
            else await take(world, ledger, step);
          }
          await world.pass(true);
          await world.kill();
          await world.pass();
          const naive = { book, counts: counted, from: SINCE, stored };
          expect(world.used()).toBe(naivelyUsed(naive, 0));
        },
      ),
      { numRuns: 600 },
    );
  });

  test('counts the hour in which the first credit arrives, but no window before it and none of a day', async () => {
    const ledger = createMemoryLedger();
    const world = await startPrepaidWorld(ledger, bookOf([priceOf(GPU, flat(2))]), {
      counts: EUR,
      now: NOW,
    });
    const from = (time: string, windowMs: number, nanos: bigint, id: string) =>
      usageOf(id, { start: Date.parse(`2026-09-17T${time}Z`), windowMs, nanos });
    await world.credit('first', decimalFromNanos(1n));
    await ledger.append({
      events: [
        from('05:00:00', HOUR_MS, 1_000_000_000n, 'hour'),
        from('05:00:00', HOUR_MS, 2_000_000_000n, 'late1_hour'),
        from('05:20:00', 60_000, 4_000_000_000n, 'minute'),
        from('05:19:00', 60_000, 8_000_000_000n, 'minute-before'),
        from('04:00:00', HOUR_MS, 16_000_000_000n, 'hour-before'),
        from('00:00:00', DAY_MS, 32_000_000_000n, 'day'),
      ],
    });
    await world.pass();
    expect(world.used()).toBe(2n * 7n * 10n ** 21n);
  });

  test('takes no more room with the years than its prices do', async () => {
    const ledger = failingLedger(() => world.clock.now() - 40 * DAY_MS);
    const book = bookOf([priceOf(GPU, flat(2))]);
    const world = await startPrepaidWorld(ledger, book, { counts: EUR, now: NOW });
    await world.credit('first', decimalFromNanos(1n));
    await world.pass();
    for (let day = 0; day < 800; day += 1) {
      await ledger.append({
        events: [usageOf(`d${day}`, { start: world.clock.now(), nanos: 1_000_000_000n })],
      });
      await world.clock.advance(DAY_MS);
      await world.pass(true);
    }
    expect(world.used()).toBe(1600n * 10n ** 21n);
    const content = world.balances.book('acme', EUR)?.content;
    expect(content?.lines.length).toBeLessThanOrEqual(3);
    expect(content?.rows.length).toBeLessThanOrEqual(4);
  });

  test.each([
    ['LevelDB', levelLedgers],
    ['PostgreSQL', postgresLedgers],
  ])('is not lost in %s when the ledger deletes what it was used by', async (_, openWith) => {
    const clock = createStepClock(NOW);
    const open = await openWith(clock);
    const book = bookOf([priceOf(GPU, flat(2))]);
    const options = { counts: EUR, now: NOW };
    let ledger = await open();
    const world = await startPrepaidWorld(ledger, book, options);
    await world.credit('first', decimalFromNanos(1n));
    await world.pass();
    for (let index = 0; index < 6; index += 1) {
      const start = SINCE + index * 60_000;
      await ledger.append({ events: [usageOf(`u${index}`, { start, nanos: 1_000_000_000n })] });
      clock.pass(12 * 3_600_000);
    }
    clock.pass(10 * DAY_MS);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(0);
    await world.pass(true);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBeGreaterThanOrEqual(4);
    await ledger.close();
    ledger = await open();
    const later = await startPrepaidWorld(ledger, book, options);
    await later.pass();
    expect(later.used()).toBe(12n * 10n ** 21n);
    await ledger.close();
  });
});

describe('a credit', () => {
  const book = bookOf([]);
  const start = (ledger: Ledger) => startPrepaidWorld(ledger, book, { counts: EUR, now: NOW });

  test('is there once for each key, however often and however many at a time request it', async () => {
    const world = await start(createMemoryLedger());
    const all = await Promise.all(
      [1, 2, 3].map(() => world.credit('payment-1', decimalFromNanos(5_000_000_000n))),
    );
    expect(all.map((outcome) => outcome.kind === 'credited' && outcome.isNew)).toStrictEqual([
      true,
      false,
      false,
    ]);
    expect(await world.credit('payment-1', decimalFromNanos(6_000_000_000n))).toMatchObject({
      kind: 'conflict',
    });
    await world.balances.refreshCredits('acme');
    expect(world.balances.credited('acme', EUR)).toBe(5n * 10n ** 21n);
  });

  test('of one tenant is no credit of another whose name begins with its own', async () => {
    const world = await start(createMemoryLedger());
    const amount = decimalFromNanos(1n);
    for (const tenant of ['acme', 'acme/1', 'acme%2F1', 'acm']) {
      await world.credits.add({ tenant, key: 'k/1', amount, counts: EUR });
    }
    for (const tenant of ['acme', 'acme/1', 'acme%2F1', 'acm']) {
      const own = await Array.fromAsync(world.credits.list(tenant));
      expect(own.map((credit) => credit.tenant)).toStrictEqual([tenant]);
    }
  });

  test('survives a restart with every digit, its note and its reference', async () => {
    const directory = await ledgers.directory();
    const ledger = await ledgers.open(directory);
    const world = await start(ledger);
    const given = {
      tenant: 'acme',
      key: 'a key with spaces and ü',
      amount: decimalFromNanos(123_456_789_012_000_000_001n),
      counts: EUR,
      note: 'by hand',
      reference: 'INV-1',
    };
    const outcome = await world.credits.add(given);
    if (outcome.kind !== 'credited') throw new Error('not credited');
    await ledger.close();
    const again = await start(await ledgers.open(directory));
    expect(await Array.fromAsync(again.credits.list())).toStrictEqual([outcome.credit]);
    expect(nanosFromDecimal(outcome.credit.amount)).toBe(123_456_789_012_000_000_001n);
  });

  test('that cannot be written is not there, and comes with the next attempt', async () => {
    const inner = createMemoryLedger();
    let fails = true;
    const ledger: Ledger = {
      ...inner,
      writeRecords: async (changes) =>
        fails ? { kind: 'failed', cause: 'full', message: 'no room' } : inner.writeRecords(changes),
    };
    const world = await start(ledger);
    expect(await world.credit('k', decimalFromNanos(1n))).toMatchObject({ kind: 'failed' });
    expect(await Array.fromAsync(world.credits.list())).toStrictEqual([]);
    fails = false;
    expect(await world.credit('k', decimalFromNanos(1n))).toMatchObject({ isNew: true });
  });
});
