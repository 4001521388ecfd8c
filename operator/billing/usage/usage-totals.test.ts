import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { coverRange } from '../../model/periods.ts';
import type { SumsStore } from './sums-store.ts';
import { StoredSums } from './testing/stored-sums.ts';
import { UsageSums, type UsageRow } from './usage-sums.ts';
import type { TotalsQuery, UsageTotals } from './usage-totals.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTH = Date.UTC(2026, 10, 1);
const EVERYTHING = { from: MONTH, to: MONTH + 30 * DAY };
const NOW = Date.parse('2026-11-21T09:05:00Z');
const testClock = { ...systemClock, now: () => NOW };
const never = new AbortController().signal;

let directory: string;
let log: string[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usage-sums-'));
  log = [];
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const note = (message: string): void => void log.push(message);
const logger: Logger = { debug: note, info: note, warn: note, error: note };

async function withTotals<T>(
  ledger: Ledger,
  action: (totals: StoredSums, store: SumsStore) => Promise<T>,
): Promise<T> {
  const totals = new StoredSums(ledger, directory, { clock: testClock, logger });
  try {
    return await action(totals, totals.store);
  } finally {
    await totals.close();
  }
}

async function rowsOf(
  totals: UsageTotals,
  change: Partial<TotalsQuery> = {},
  groupBy: readonly string[] = ['tenant'],
): Promise<readonly UsageRow[]> {
  const sums = new UsageSums(groupBy, 1000);
  const query = { range: EVERYTHING, filter: () => true, hourly: false, signal: never, ...change };
  expect(await totals.addTo(sums, query)).toMatchObject({ kind: 'added' });
  return sums.rows();
}

async function scannedRows(
  ledger: Ledger,
  range: { readonly from: number; readonly to: number },
  groupBy: readonly string[],
): Promise<readonly UsageRow[]> {
  const sums = new UsageSums(groupBy, 1000);
  for await (const { event } of ledger.scan(range.from, range.to)) sums.add(event);
  return sums.rows();
}

function eventAt(minute: number, tenant: string, nanos: bigint): UsageEvent {
  const id = `e-${minute}-${tenant}-${nanos}`;
  const event = testEvent({ id, windowStart: MONTH + minute * MINUTE, tenant });
  return { ...event, quantity: decimalFromNanos(nanos) };
}

const anyEvent = fc
  .tuple(
    fc.integer({ min: 0, max: 5 * 24 * 60 }),
    fc.constantFrom('a', 'a/b', 'ü', '\u{1F600}'),
    fc.bigInt({ min: 1n, max: 10n ** 18n }),
  )
  .map(([minute, tenant, nanos]) => eventAt(minute, tenant, nanos));

const anyRange = fc
  .tuple(fc.integer({ min: -90, max: 6 * 24 * 60 }), fc.integer({ min: 1, max: 4 * 24 * 60 }))
  .map(([start, length]) => ({
    from: MONTH + start * MINUTE,
    to: MONTH + (start + length) * MINUTE,
  }));

describe('sums that are kept', () => {
  test('are the same as those of the events, over any range, however far they have come', async () => {
    const events = fc.array(anyEvent, { maxLength: 60 });
    const groupings = fc.constantFrom<readonly string[]>(
      ['tenant'],
      ['day'],
      ['hour', 'tenant'],
      ['tenant_class'],
      [],
    );
    await fc.assert(
      fc.asyncProperty(events, events, anyRange, groupings, async (early, late, range, groupBy) => {
        await rm(directory, { recursive: true, force: true });
        const ledger = createMemoryLedger();
        await ledger.append({ events: early });
        await withTotals(ledger, (totals) => totals.catchUp(never));
        await ledger.append({ events: late });
        const expected = await scannedRows(ledger, range, groupBy);
        const hourly = groupBy.includes('hour');
        await withTotals(ledger, async (totals) => {
          expect(await rowsOf(totals, { range, hourly }, groupBy)).toStrictEqual(expected);
          await totals.catchUp(never);
          expect(await rowsOf(totals, { range, hourly }, groupBy)).toStrictEqual(expected);
        });
      }),
      { numRuns: 40 },
    );
  });

  test('that are far behind the ledger, as after a take-over, say up to when they are, and only to readers who read that', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [eventAt(1, 'a', 5n)] });
    await withTotals(ledger, (totals) => totals.catchUp(never));
    await ledger.append({ events: [eventAt(2, 'a', 7n), eventAt(3, 'a', 1n)] });
    const addedBy = async (of: Ledger, mayLag: boolean) =>
      withTotals(of, async (totals) => {
        const sums = new UsageSums(['tenant'], 1000);
        const query = { range: EVERYTHING, filter: () => true, hourly: false, signal: never };
        return [await totals.addTo(sums, { ...query, mayLag }), sums.events] as const;
      });
    const reached = MONTH + 2 * MINUTE;
    const far = { ...ledger, head: () => ledger.head() + 200_000 };
    expect(await addedBy(far, true)).toMatchObject([{ head: 1, summedUpTo: reached }, 1]);
    expect(await addedBy(far, false)).toEqual([{ kind: 'added', partial: false, head: 3 }, 3]);
    expect(await addedBy(ledger, true)).toEqual([{ kind: 'added', partial: false, head: 3 }, 3]);
  });

  test('of a month are read without reading its events', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [eventAt(1, 'a', 5n), eventAt(2000, 'b', 7n)] });
    await withTotals(ledger, (totals) => totals.catchUp(never));
    const readAfter: number[] = [];
    const watched: Ledger = {
      ...ledger,
      read: (after, limit) => {
        readAfter.push(after);
        return ledger.read(after, limit);
      },
      scan: () => {
        throw new Error('scanned');
      },
    };
    await withTotals(watched, async (totals) => {
      expect(await rowsOf(totals)).toMatchObject([
        { keys: ['a'], quantity: '0.000000005' },
        { keys: ['b'], quantity: '0.000000007' },
      ]);
      expect(readAfter).toStrictEqual([ledger.head()]);
    });
  });

  test('of one tenant are found without reading those of others', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: ['a', 'a/b', 'b'].map((t) => eventAt(1, t, 5n)) });
    await withTotals(ledger, async (totals, store) => {
      await totals.catchUp(never);
      const found = await store.reading((sums) =>
        Array.fromAsync(sums.read('day', '2026-11-01', 'a')),
      );
      const owners = found.map(([tenant]) => tenant);
      expect(owners).toStrictEqual(['a']);
      expect(await rowsOf(totals, { tenant: 'a' })).toMatchObject([{ keys: ['a'], events: 1 }]);
    });
  });

  test('outlive the events, and say so when a part of the range is gone', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [eventAt(1, 'a', 5n)] });
    await withTotals(ledger, (totals) => totals.catchUp(never));
    const emptied: Ledger = {
      ...ledger,
      lowWater: () => 1,
      async *scan() {
        yield* [];
      },
      stats: () => ({ ...ledger.stats(), oldestAt: MONTH + DAY }),
    };
    await withTotals(emptied, async (totals) => {
      expect(await rowsOf(totals)).toMatchObject([{ keys: ['a'] }]);
      const sums = new UsageSums([], 10);
      const query = { filter: () => true, hourly: false, signal: never };
      const range = { from: MONTH + MINUTE, to: MONTH + 30 * DAY };
      expect(await totals.addTo(sums, { ...query, range })).toEqual({
        kind: 'added',
        partial: true,
        head: emptied.head(),
      });
    });
  });

  test('expire: hours after 70 days, days after 400', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [eventAt(1, 'a', 5n)] });
    await withTotals(ledger, async (totals, store) => {
      await totals.catchUp(never);
      const kept = async (kind: 'hour' | 'day', period: string) => {
        const found = await store.reading((sums) =>
          Array.fromAsync(sums.read(kind, period, undefined)),
        );
        return found.length === 1;
      };
      const both = async () => [
        await kept('hour', '2026-11-01T00'),
        await kept('day', '2026-11-01'),
      ];
      await store.expire(MONTH + 70 * DAY);
      expect(await both()).toStrictEqual([true, true]);
      await store.expire(MONTH + 71 * DAY);
      expect(await both()).toStrictEqual([false, true]);
      await store.expire(MONTH + 401 * DAY);
      expect(await both()).toStrictEqual([false, false]);
    });
  });
});

describe('sums that went wrong', () => {
  const event = eventAt(1, 'a', 5n);

  test('because a byte flipped are rebuilt, never shown', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [event] });
    await withTotals(ledger, (totals) => totals.catchUp(never));
    await damage(directory);
    await withTotals(ledger, async (totals) => {
      const query = { range: EVERYTHING, filter: () => true, hourly: false, signal: never };
      const damaged = await totals.addTo(new UsageSums([], 10), query);
      expect(damaged).toStrictEqual({ kind: 'rebuilding' });
      await totals.catchUp(never);
      expect(await rowsOf(totals)).toMatchObject([{ quantity: '0.000000005', events: 1 }]);
    });
    expect(log.join()).toContain('usage sums are rebuilt: damaged');
  });

  test('because they are another ledger’s are rebuilt', async () => {
    const other = createMemoryLedger();
    await other.append({ events: [event, eventAt(2, 'b', 5n)] });
    await withTotals(other, (totals) => totals.catchUp(never));
    const ledger = createMemoryLedger();
    await ledger.append({ events: [event] });
    await withTotals(ledger, async (totals) => {
      await totals.catchUp(never);
      expect(await rowsOf(totals)).toMatchObject([{ keys: ['a'], events: 1 }]);
    });
    const restored = createMemoryLedger();
    await restored.append({ events: [eventAt(3, 'c', 5n)] });
    const stats = () => ({ ...restored.stats(), ledgerId: 'restored' });
    await withTotals({ ...restored, stats }, async (totals) => {
      await totals.catchUp(never);
      expect(await rowsOf(totals)).toMatchObject([{ keys: ['c'], events: 1 }]);
    });
  });

  test('because the directory is rubbish are rebuilt', async () => {
    await writeFile(join(directory, 'CURRENT'), 'rubbish');
    const ledger = createMemoryLedger();
    await ledger.append({ events: [event] });
    await withTotals(ledger, async (totals) => {
      await totals.catchUp(never);
      expect(await rowsOf(totals)).toMatchObject([{ keys: ['a'] }]);
    });
  });

  test('and are rebuilt while more is summed do not go on without what came before it', async () => {
    const ledger = createMemoryLedger();
    await ledger.append({ events: [event] });
    await withTotals(ledger, (totals) => totals.catchUp(never));
    await ledger.append({ events: [eventAt(2, 'b', 7n)] });
    const read: Ledger['read'] = async (after, limit) => {
      if (after === 1) await totals.store.clear();
      return ledger.read(after, limit);
    };
    const surroundings = { clock: testClock, logger };
    const totals: StoredSums = new StoredSums({ ...ledger, read }, directory, surroundings);
    await totals.catchUp(never);
    await totals.catchUp(never);
    expect(await rowsOf(totals)).toMatchObject([{ keys: ['a'] }, { keys: ['b'] }]);
    await totals.close();
  });

  test('a query beside the summing never counts an event twice or not at all', async () => {
    const ledger = createMemoryLedger();
    await withTotals(ledger, async (totals) => {
      for (let index = 0; index < 30; index++) {
        await ledger.append({ events: [eventAt(index, 'a', 1n)] });
        const summing = totals.catchUp(never);
        const [row] = await rowsOf(totals);
        expect(row?.events).toBe(index + 1);
        await summing;
      }
    });
  });
});

test('a range is covered once, and by days where it can be', () => {
  expect(coverRange(NOW, NOW + MINUTE, false)).toStrictEqual({
    days: [],
    hours: [],
    edges: [{ from: NOW, to: NOW + MINUTE }],
  });
  const cover = coverRange(MONTH + 23 * HOUR, MONTH + 3 * DAY + MINUTE, false);
  expect(cover).toStrictEqual({
    days: ['2026-11-02', '2026-11-03'],
    hours: ['2026-11-01T23'],
    edges: [{ from: MONTH + 3 * DAY, to: MONTH + 3 * DAY + MINUTE }],
  });
  expect(coverRange(MONTH, MONTH + DAY, true).hours).toHaveLength(24);
});

/** Changes stored sums behind the store's back, as a dying disk does. */
async function damage(where: string): Promise<void> {
  const database = new ClassicLevel(where);
  for await (const [key, value] of database.iterator({ gte: 'day/' })) {
    await database.put(key, value.replace('0.000000005', '0.000000004'));
  }
  await database.close();
}
