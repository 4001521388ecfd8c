import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Ledger, StoredEvent } from '../ledger/ledger.ts';
import { silentLogger } from '../ledger/testing/level-ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import { override } from '../model/override.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { openSumsStore, type SumsStore } from './sums-store.ts';
import { createUsageSums, type UsageRow } from './usage-sums.ts';
import { createUsageTotals, type KeptTotals } from './usage-totals.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 10, 20);
const RANGE = { from: START, to: START + 86_400_000 };
const clock = { ...systemClock, now: () => START + 90_000_000 };
const never = new AbortController().signal;

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'heard-events-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

function eventOf(number: number): UsageEvent {
  const windowStart = START + (number % 1_000) * MINUTE;
  const event = testEvent({ id: `e-${number}`, windowStart, tenant: `t-${number % 3}` });
  return { ...event, quantity: decimalFromNanos(10n ** BigInt(number % 16)) };
}

async function sumsOf(totals: KeptTotals): Promise<readonly UsageRow[]> {
  const sums = createUsageSums(['tenant', 'hour'], 10_000);
  const query = { range: RANGE, filter: () => true, hourly: true, signal: never };
  expect(await totals.addTo(sums, query)).toMatchObject({ kind: 'added' });
  return sums.rows();
}

async function scanned(ledger: Ledger): Promise<readonly UsageRow[]> {
  const sums = createUsageSums(['tenant', 'hour'], 10_000);
  for await (const { event } of ledger.scan(RANGE.from, RANGE.to)) sums.add(event);
  return sums.rows();
}

async function pageOf(ledger: Ledger, after: number, limit: number) {
  const page = await ledger.read(after, limit);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events;
}

/** Reads take a while, in which other things are done. */
function slowly(ledger: Ledger): Ledger {
  const read: Ledger['read'] = async (...place) => {
    const page = await ledger.read(...place);
    for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
    return page;
  };
  return override<Ledger>(ledger, { read });
}

/** A store of which a commit can be told to fail. */
function fragile(store: SumsStore) {
  const fault = { isDue: false };
  const commit: SumsStore['commit'] = async (...work) => {
    if (!fault.isDue) return store.commit(...work);
    fault.isDue = false;
    throw new Error('no room');
  };
  return { fault, store: override<SumsStore>(store, { commit }) };
}

const anyStep = fc.oneof(
  fc.record({ kind: fc.constant('append'), events: fc.integer({ min: 1, max: 20 }) }),
  fc.record({
    kind: fc.constantFrom('hear', 'hear while it sums'),
    back: fc.integer({ min: 0, max: 60 }),
    limit: fc.integer({ min: 1, max: 40 }),
    turns: fc.nat(12),
  }),
  fc.record({ kind: fc.constantFrom('sum', 'fail', 'make anew') }),
);

test('an event counts once, whoever has read it, in whatever pages, while sums are stored, fail or are made anew', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 25 }), async (steps) => {
      await rm(directory, { recursive: true, force: true });
      const ledger = createMemoryLedger();
      const opened = await openSumsStore(directory, ledger.stats().ledgerId);
      const { store, fault } = fragile(opened);
      const totals = createUsageTotals({
        ledger: slowly(ledger),
        store,
        clock,
        logger: silentLogger,
      });
      const sum = (): Promise<void> => totals.catchUp(never).catch(() => undefined);
      let appended = 0;
      try {
        for (const step of steps) {
          if ('events' in step) {
            const events = Array.from({ length: step.events }, () => eventOf(appended++));
            await ledger.append({ events });
          } else if ('limit' in step) {
            const after = Math.max(0, ledger.head() - step.back);
            const page = await pageOf(ledger, after, step.limit);
            const summing = step.kind === 'hear' ? undefined : sum();
            for (let turn = 0; turn < step.turns; turn += 1) await new Promise(setImmediate);
            totals.hear(page, after);
            await summing;
          } else if (step.kind === 'sum') await sum();
          else if (step.kind === 'fail') fault.isDue = true;
          else await opened.clear();
          expect(await sumsOf(totals)).toStrictEqual(await scanned(ledger));
        }
        fault.isDue = false;
        await totals.catchUp(never);
        expect(opened.progress).toBe(ledger.head());
        expect(await sumsOf(totals)).toStrictEqual(await scanned(ledger));
      } finally {
        await opened.close();
      }
    }),
    { numRuns: 60 },
  );
});

test('a window that a feeder reads is not read once more to be summed', async () => {
  const ledger = createMemoryLedger();
  const read = vi.fn<Ledger['read']>((...place) => ledger.read(...place));
  const watched = override<Ledger>(ledger, { read });
  const store = await openSumsStore(directory, ledger.stats().ledgerId);
  const resting = Promise.withResolvers<void>();
  const sleep: typeof clock.sleep = (...ms) => {
    resting.resolve();
    return clock.sleep(...ms);
  };
  const totals = createUsageTotals({
    ledger: watched,
    store,
    clock: { ...clock, sleep },
    logger: silentLogger,
  });
  const stop = new AbortController();
  const running = totals.run(stop.signal);
  await resting.promise;
  await ledger.append({
    events: Array.from({ length: 2_500 }, (_, index) => ({
      ...eventOf(index),
      tenant: `t-${index}`,
    })),
  });
  const pages: (readonly StoredEvent[])[] = [];
  for (let after = 0; after < 2_500; after += 500) pages.push(await pageOf(ledger, after, 500));
  for (const [index, page] of pages.entries()) totals.hear(page, index * 500);
  await vi.waitUntil(() => store.progress === 2_500);
  expect(read).not.toHaveBeenCalled();
  stop.abort();
  await running;
  await store.close();
});

test('what cannot be summed stops nobody who reads', async () => {
  const ledger = createMemoryLedger();
  const store = await openSumsStore(directory, ledger.stats().ledgerId);
  const totals = createUsageTotals({ ledger, store, clock, logger: silentLogger });
  await ledger.append({ events: [eventOf(1)] });
  const [stored] = await pageOf(ledger, 0, 1);
  if (stored === undefined) throw new Error('no event');
  const unreadable = { ...stored.event, quantity: 'one' as UsageEvent['quantity'] };
  totals.hear([{ ...stored, event: unreadable }], 0);
  await totals.catchUp(never);
  expect(await sumsOf(totals)).toStrictEqual(await scanned(ledger));
  await store.close();
});

test('what was heard is not stored without what came before it, where the sums were made anew meanwhile', async () => {
  const ledger = createMemoryLedger();
  const store = await openSumsStore(directory, ledger.stats().ledgerId);
  const totals = createUsageTotals({ ledger, store, clock, logger: silentLogger });
  await ledger.append({ events: [eventOf(1)] });
  await totals.catchUp(never);
  await ledger.append({ events: [eventOf(2)] });
  totals.hear(await pageOf(ledger, 1, 1), 1);
  await store.clear();
  await totals.catchUp(never);
  expect(store.progress).toBe(2);
  expect(await sumsOf(totals)).toStrictEqual(await scanned(ledger));
  await store.close();
});
