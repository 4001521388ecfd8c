import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Ledger, StoredEvent } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { openTestStream, usePostgres } from '../../ledger/testing/postgres-ledger.ts';
import { useLedgers } from '../../ledger/testing/use-ledgers.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { SumsStore } from './sums-store.ts';
import type { EventsQuery } from './tenant-events.ts';
import { StoredSums } from './testing/stored-sums.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTH = Date.UTC(2026, 10, 1);
const NOW = MONTH + 20 * DAY;
const signal = new AbortController().signal;

const used = useLedgers();
const postgres = usePostgres();
let directory: string;
let log: string[];
let now: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenant-events-'));
  log = [];
  now = NOW;
});

afterEach(() => rm(directory, { recursive: true, force: true }));

async function withTotals(
  ledger: Ledger,
  action: (totals: StoredSums, store: SumsStore) => Promise<void>,
): Promise<void> {
  const note = (message: string): void => void log.push(message);
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const clock = { ...systemClock, now: () => now };
  const totals = new StoredSums(ledger, directory, { clock, logger });
  try {
    await action(totals, totals.store);
  } finally {
    await totals.close();
  }
}

/** What there is of a tenant by the plain way: all events of the time are looked at. */
async function scanned(ledger: Ledger, { range, tenant }: EventsQuery): Promise<StoredEvent[]> {
  const all = await Array.fromAsync(ledger.scan(range.from, range.to));
  return all.filter(({ event }) => event.tenant === tenant);
}

/**
 * Names that are prefixes of one another, or look like another's in JSON, in a key, or to a reader.
 */
const HOSTILE_NAMES = [
  'a',
  'A',
  'a ',
  'a/b',
  'a\\',
  'a"',
  '\\u0061',
  'a","tenant":"b',
  'b","window_start":"2026-11-01T00:00:00Z',
  '2026-11-01T00/a',
  '%61',
  '__proto__',
  'constructor',
  'null',
  'é',
  'e\u0301',
  '\u{1F4B6}',
  '\u202Ea',
];

const anyTenant = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...HOSTILE_NAMES) },
  {
    weight: 1,
    arbitrary: fc
      .string({ unit: 'binary', minLength: 1, maxLength: 4 })
      // As events have them (docs/reference/events.md#fields).
      .filter((text) => /^[^\p{Cc}\p{Cs}\u2028\u2029]+$/u.test(text)),
  },
);

/** An event that speaks of another tenant wherever it can. */
const anyEvent = fc
  .tuple(fc.integer({ min: 0, max: 3 * 60 }), anyTenant, anyTenant, fc.nat(3))
  .map(([minute, tenant, other, series]): Omit<UsageEvent, 'id'> => {
    const event = testEvent({ windowStart: MONTH + minute * MINUTE, tenant, sku: `s-${series}` });
    return {
      ...event,
      resource_id: other,
      dimensions: { tenant_cluster: other },
      properties: { tenant: other, note: `"tenant":"${other}"` },
    };
  });

type Step = 'sum' | readonly Omit<UsageEvent, 'id'>[];

const anyStep = fc.oneof(
  fc.constant<Step>('sum'),
  fc.array(anyEvent, { minLength: 1, maxLength: 40 }).map((events): Step => events),
);

const anyRange = fc
  .tuple(fc.integer({ min: -30, max: 3 * 60 }), fc.integer({ min: 1, max: 4 * 60 }))
  .map(([start, length]) => ({
    from: MONTH + start * MINUTE,
    to: MONTH + (start + length) * MINUTE,
  }));

describe.each<[storage: string, open: () => Promise<Ledger>]>([
  ['memory', async () => createMemoryLedger()],
  ['LevelDB', async () => used.open(await used.directory())],
  ['PostgreSQL', async () => openTestStream(await postgres.server().createDatabase())],
])('in %s', (_storage, open) => {
  test('a tenant is shown an event of another, or not all of its own, or in another order', async () => {
    const ledger = await open();
    let count = 0;
    await withTotals(ledger, async (totals) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(anyStep, { minLength: 1, maxLength: 6 }),
          anyRange,
          fc.array(anyTenant, { minLength: 1, maxLength: 4 }),
          async (steps, range, tenants) => {
            for (const step of steps) {
              if (step === 'sum') await totals.catchUp(signal);
              else {
                const events = step.map((event) => ({ ...event, id: `any-${(count += 1)}` }));
                await ledger.append({ events });
              }
            }
            for (const tenant of tenants) {
              const query = { range, tenant, signal };
              const found = await Array.fromAsync(totals.events(query));
              expect(found).toStrictEqual(await scanned(ledger, query));
            }
          },
        ),
        { numRuns: 60, endOnFailure: true },
      );
    });
    await ledger.close();
  });
});

describe('events of one tenant', () => {
  const range = { from: MONTH, to: MONTH + HOUR };
  const minutes = Array.from({ length: 60 }, (_, minute) => MONTH + minute * MINUTE);
  const query = { range, tenant: 'tenant-7', signal };

  /** An hour of a hundred tenants. */
  async function ledgerOfAnHour(): Promise<Ledger> {
    const ledger = createMemoryLedger();
    for (const windowStart of minutes) {
      const events = Array.from({ length: 100 }, (_, index) =>
        testEvent({ windowStart, tenant: `tenant-${index}` }),
      );
      await ledger.append({ events });
    }
    return ledger;
  }

  test('are looked for among those of all tenants', async () => {
    const ledger = await ledgerOfAnHour();
    let read = 0;
    const watched: Ledger = {
      ...ledger,
      read: async (after, limit) => {
        const page = await ledger.read(after, limit);
        if (page.kind === 'page') read += page.events.length;
        return page;
      },
      scan: () => {
        throw new Error('scanned');
      },
    };
    await withTotals(watched, async (totals) => {
      await totals.catchUp(signal);
      read = 0;
      expect(await Array.fromAsync(totals.events(query))).toHaveLength(60);
      expect(read).toBe(60);
    });
  });

  test('are missing where a release that kept no places has summed some of them', async () => {
    const ledger = await ledgerOfAnHour();
    await withTotals(ledger, (totals) => totals.catchUp(signal));
    const database = new ClassicLevel(directory);
    await database.clear({ gte: 'places/', lt: 'places0' });
    await database.close();
    await withTotals(ledger, async (totals) => {
      expect(await Array.fromAsync(totals.events(query))).toHaveLength(60);
      const late = testEvent({ id: 'late', windowStart: MONTH, tenant: query.tenant });
      await ledger.append({ events: [late] });
      await totals.catchUp(signal);
      expect(await Array.fromAsync(totals.events(query))).toHaveLength(61);
    });
  });

  test('are missing where the places of an hour are damaged', async () => {
    const ledger = await ledgerOfAnHour();
    await withTotals(ledger, (totals) => totals.catchUp(signal));
    const database = new ClassicLevel(directory);
    for await (const [key, value] of database.iterator({ gte: 'places/', lt: 'places0' })) {
      await database.put(key, value.replace('[60,', '[59,'));
    }
    await database.close();
    await withTotals(ledger, async (totals) => {
      expect(await Array.fromAsync(totals.events(query))).toHaveLength(60);
      expect(log.join()).toContain('usage sums are rebuilt: damaged');
    });
  });

  test('are missing where hours are kept no longer and the ledger keeps events', async () => {
    const ledger = await ledgerOfAnHour();
    await withTotals(ledger, async (totals, store) => {
      await totals.catchUp(signal);
      const places = () => store.reading((sums) => sums.places(['2026-11-01T00'], query.tenant));
      expect(await places()).toHaveLength(60);
      now = MONTH + 71 * DAY;
      await store.expire(now);
      expect(await places()).toStrictEqual([]);
      expect(await Array.fromAsync(totals.events(query))).toHaveLength(60);
    });
  });

  test('are those of others where their own are deleted', async () => {
    const ledger = await ledgerOfAnHour();
    let lowWater = 0;
    const shortened: Ledger = {
      ...ledger,
      lowWater: () => lowWater,
      read: (after, limit) => ledger.read(Math.max(after, lowWater), limit),
    };
    await withTotals(shortened, async (totals) => {
      await totals.catchUp(signal);
      lowWater = 1050;
      const found = await Array.fromAsync(totals.events(query));
      expect(found).toHaveLength(49);
      expect(found.every(({ event }) => event.tenant === query.tenant)).toBe(true);
    });
  });

  test('are there twice where a segment before them is given up', async () => {
    const ledger = await ledgerOfAnHour();
    let givenUp = 0;
    const damaged: Ledger = {
      ...ledger,
      read: (after, limit) => ledger.read(Math.max(after, givenUp), limit),
    };
    await withTotals(damaged, async (totals) => {
      await totals.catchUp(signal);
      // The next event is of this tenant.
      givenUp = 1007;
      const found = await Array.fromAsync(totals.events(query));
      expect(found.map(({ sequence }) => sequence)).toStrictEqual(
        minutes.slice(10).map((_, index) => 1008 + 100 * index),
      );
    });
  });

  test('of the newest windows are missing until they are summed', async () => {
    const ledger = await ledgerOfAnHour();
    await withTotals(ledger, async (totals) => {
      await totals.catchUp(signal);
      for (let index = 0; index < 10; index++) {
        const id = `late-${index}`;
        const late = testEvent({ id, windowStart: MONTH + index * MINUTE, tenant: query.tenant });
        await ledger.append({ events: [late] });
        const summing = totals.catchUp(signal);
        const found = await Array.fromAsync(totals.events(query));
        expect(found.map(({ event }) => event.id).slice(60)).toContain(id);
        expect(found).toHaveLength(61 + index);
        await summing;
      }
    });
  });
});
