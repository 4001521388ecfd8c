import { expect, test } from 'vitest';
import type { Destination } from '../../destinations/destination.ts';
import { override } from '../../model/override.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createRateWatch } from '../operations/rate-watch.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness } from '../testing/harness.ts';
import { createVirtualClock, type VirtualClock } from '../testing/virtual-clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** A tenth of 12,000 series at a tenth of 20 requests a second, which comes to the same. */
const SERIES = 1_200;
const PER_SECOND = 2;
const NINE = TEST_WINDOW_START;

const templates = Array.from({ length: SERIES }, (_, series) =>
  testEvent({ tenant: `t${series % 100}`, sku: `sku-${Math.floor(series / 100)}` }),
);
const instants = new Map<number, string>();

function instantOf(window: number): string {
  const known = instants.get(window);
  if (known !== undefined) return known;
  const text = `${new Date(NINE + window * MINUTE_MS).toISOString().slice(0, 19)}Z`;
  instants.set(window, text);
  return text;
}

/** The event of a sequence number: a window of all series after the other. */
function eventAt(sequence: number): UsageEvent {
  const window = Math.floor((sequence - 1) / SERIES);
  const template = templates[(sequence - 1) % SERIES];
  if (template === undefined) throw new RangeError(String(sequence));
  const [start, end] = [instantOf(window), instantOf(window + 1)];
  return { ...template, id: `e-${sequence}`, window_start: start, window_end: end };
}

/** A ledger in which a window of all series is there five seconds after its end. */
function createBusyLedger(clock: VirtualClock): Ledger {
  const inner = createMemoryLedger();
  const windows = (): number => Math.max(0, Math.floor((clock.now() - 5_000 - NINE) / MINUTE_MS));
  const head = (): number => windows() * SERIES;
  return {
    ...inner,
    head,
    stats: () => ({ ...inner.stats(), lastWindowEnd: NINE + windows() * MINUTE_MS }),
    read: async (after, limit) => {
      const last = Math.min(head(), after + limit);
      const events = Array.from({ length: Math.max(0, last - after) }, (_, index) => ({
        sequence: after + index + 1,
        event: eventAt(after + index + 1),
      }));
      return { kind: 'page', events, lastSequence: events.at(-1)?.sequence ?? after };
    },
    changed: async (after, signal) => {
      while (head() <= after) await clock.sleep(1_000, signal);
    },
    commitCursor: async (name, sequence, commit) => {
      // The one in memory knows only of what was appended to it.
      const moved = cursors.get(name) ?? 0;
      if (commit?.from !== undefined && commit.from !== (cursors.get(name) ?? 'none')) {
        return { kind: 'failed', cause: 'retryable', message: 'moved' };
      }
      cursors.set(name, Math.max(moved, sequence));
      return inner.writeRecords(commit?.records ?? []);
    },
    cursors: () =>
      [...cursors].map(([destination, sequence]) => ({
        destination,
        sequence,
        ...(sequence > 0 && { windowEnd: eventAt(sequence).window_end }),
      })),
  };
}

const cursors = new Map<string, number>();

/** A billing system that takes one event in a call, and how far delivery is behind, hour by hour. */
async function lagsOf(aggregate: '1h' | 'none', hours: number) {
  cursors.clear();
  const clock = createVirtualClock();
  const ledger = createBusyLedger(clock);
  const inner = createFakeDestination({ limits: { batchEvents: 10 }, now: () => clock.now() });
  let calls = 0;
  const destination = override<Destination, typeof inner>(inner, {
    eventsPerSecond: () => PER_SECOND,
    send: async (events, signal) => {
      calls += events.length;
      await clock.sleep((events.length / PER_SECOND) * 1000, signal);
      return events.map(() => ({ kind: 'delivered' }));
    },
  });
  const harness = createHarness({ clock, ledger, destination });
  const rate = createRateWatch(ledger, clock);
  const stopping = new AbortController();
  const watching = rate.run(stopping.signal);
  await harness.start({ aggregate });
  const lags: number[] = [];
  for (let hour = 0; hour < hours; hour += 1) {
    await clock.pass(HOUR_MS);
    lags.push(harness.delivery.status('fake')?.lagSeconds ?? 0);
  }
  const status = harness.delivery.status('fake');
  const tooSlow = status && rate.tooSlow(status);
  stopping.abort();
  await watching;
  const stopped = harness.stop();
  // The call under way ends.
  await clock.pass(MINUTE_MS);
  await stopped;
  return { lags, calls, tooSlow };
}

test('ten times as much usage as the limit allows keeps up when it is added up by the hour', async () => {
  const { lags, calls, tooSlow } = await lagsOf('1h', 3);
  // 09:05 is when the clock starts: at five past the hour is over, and on its way.
  for (const lag of lags) expect(lag).toBeLessThan(2 * 3_600);
  expect(lags.at(-1)).toBeLessThanOrEqual(lags[0] ?? 0);
  expect(calls).toBeGreaterThan(2 * SERIES);
  expect(calls).toBeLessThanOrEqual(3 * SERIES);
  expect(tooSlow).toBeUndefined();
});

test('ten times as much usage as the limit allows falls behind otherwise, and the rate that is needed is told', async () => {
  const { lags, tooSlow } = await lagsOf('none', 2);
  expect(lags.at(-1)).toBeGreaterThan(3_600);
  expect(tooSlow).toEqual({ allowed: PER_SECOND, needed: SERIES / 60 });
});
