import { expect, test } from 'vitest';
import type { Destination, BucketEvent } from '../../destinations/destination.ts';
import { override } from '../../model/override.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { TEST_WINDOW_START } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { createStepClock } from '../../ledger/testing/step-clock.ts';
import { useLedgers } from '../../ledger/testing/use-ledgers.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { createFakeDestination, type FakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { createAggregatedRanges } from './ranges.ts';
import { sentEvents } from './sent-events.ts';

const used = useLedgers();
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

test('a sum whose parts retention has partly deleted is not computed anew from what is left of them', async () => {
  const clock = createStepClock(TEST_WINDOW_START);
  const ledger = await used.open(await used.directory(), {
    clock,
    retentionMs: DAY_MS,
    segmentLimits: { events: 50, bytes: Number.MAX_SAFE_INTEGER },
  });
  const events = eventsOf(['a'], 120);
  for (const event of events) await ledger.append({ events: [event] });
  await ledger.commitCursor('fake', 60);
  const ranges = createAggregatedRanges(ledger, createDeliveryRecords(ledger, 'fake'));
  await ranges.seal({ from: 0, to: 120 });
  const query = {
    from: TEST_WINDOW_START,
    to: TEST_WINDOW_START + 2 * HOUR_MS,
    isMeant: () => true,
  };
  const sent = async () => {
    const found = [];
    const { signal } = new AbortController();
    for await (const one of sentEvents(ledger, ranges, query, signal)) found.push(one);
    return found.map(({ event, parts }) => ({ id: event.id, parts: parts?.length }));
  };
  const before = await sent();
  expect(before).toStrictEqual([
    { id: expect.stringMatching(/^agg1_/), parts: 60 },
    { id: expect.stringMatching(/^agg1_/), parts: 60 },
  ]);
  clock.pass(3 * DAY_MS);
  await ledger.retain(clock.now());
  expect(ledger.lowWater()).toBe(50);
  // The first hour is gone in part, the second is whole.
  expect(await sent()).toStrictEqual(before.slice(1));
});

/** As retention leaves it: without the first events. */
function withoutFirst(ledger: Ledger, lowWater: number, horizon: number): Ledger {
  return override<Ledger>(ledger, {
    read: (after, limit) => ledger.read(Math.max(after, lowWater), limit),
    lowWater: () => lowWater,
    stats: () => ({ ...ledger.stats(), horizon }),
    scan: async function* (from: number, to: number) {
      for await (const stored of ledger.scan(from, to))
        if (stored.sequence > lowWater) yield stored;
    },
  });
}

test('a refused sum is not held against what is left of the other sums of its minute', async () => {
  const clock = createVirtualClock();
  const fake = createFakeDestination({
    limits: { idMemoryMs: DAY_MS, batchEvents: 1 },
    now: () => clock.now(),
  });
  const asked: (readonly BucketEvent[] | undefined)[] = [];
  const destination = override<Destination, FakeDestination>(fake, {
    verify: async (_, __, sameBucket) => {
      asked.push(sameBucket);
      return { kind: 'retry', reason: 'status 503' };
    },
  });
  const of = (resource: string) =>
    eventsOf(['a'], 60).map((event) => ({
      ...event,
      id: `${resource}-${event.id}`,
      resource_id: resource,
    }));
  const calls = new Map<string, number>();
  fake.react = ([event]) => {
    const resource = event?.resource_id ?? '';
    calls.set(resource, (calls.get(resource) ?? 0) + 1);
    if (resource !== 'node-2') return 'accept';
    return calls.get(resource) === 1 ? 'lost' : 'refuse';
  };
  const memory = createMemoryLedger();
  const first = createHarness({ clock, destination, ledger: memory });
  await first.append(...of('node-1'), ...of('node-2'));
  await first.start({ aggregate: '1h' });
  await clock.pass(70 * MINUTE_MS);
  expect(first.delivery.status('fake')).toMatchObject({ deadLetters: 1, delivered: 1 });
  await first.stop();

  await clock.pass(2 * DAY_MS);
  const whole = createHarness({ clock, destination, ledger: memory });
  await whole.start({ aggregate: '1h' });
  void whole.delivery.replay('fake', undefined);
  await clock.until(() => asked.length > 0);
  expect(asked[0]).toMatchObject([{ delivered: true }, { delivered: false }]);
  await whole.stop();

  const left = withoutFirst(memory, 30, TEST_WINDOW_START + 30 * MINUTE_MS);
  const after = createHarness({ clock, destination, ledger: left });
  asked.length = 0;
  await after.start({ aggregate: '1h' });
  await clock.until(() => asked.length > 0);
  expect(asked[0]).toBeUndefined();
  await after.stop();
});

test('what is left of a sum that may have been taken is not sent when its destination comes back too late', async () => {
  const clock = createVirtualClock();
  const destination = createFakeDestination({ now: () => clock.now() });
  destination.react = () => 'lost';
  const memory = createMemoryLedger();
  const first = createHarness({ clock, destination, ledger: memory });
  await first.append(...eventsOf(['a', 'b'], 60));
  await first.start({ aggregate: '1h' });
  await clock.pass(70 * MINUTE_MS);
  await first.stop();
  expect(destination.taken).toHaveLength(2);

  const left = withoutFirst(memory, 30, TEST_WINDOW_START + 15 * MINUTE_MS);
  destination.react = () => 'accept';
  const later = createHarness({ clock, destination, ledger: left });
  await later.start({ aggregate: '1h' });
  await later.drained();
  await clock.settle();
  expect(destination.taken).toHaveLength(2);
  const page = await later.delivery.deadLetters('fake', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    {
      reason: expect.stringContaining('what is left of a sum'),
      unansweredSince: expect.any(Number),
      event: { tenant: 'a' },
    },
    { reason: expect.stringContaining('what is left of a sum'), event: { tenant: 'b' } },
  ]);
  await later.stop();
});
