import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { createFakeDestination, type FakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, type Harness } from '../testing/harness.ts';
import { createVirtualClock, type VirtualClock } from '../testing/virtual-clock.ts';

const DAY_MS = 24 * 3_600_000;

interface Leftovers {
  readonly cursor: number;
  /** Which stretches of the ledger were sent as sums, as an earlier version wrote it down. */
  readonly ranges: readonly {
    readonly from: number;
    readonly to: number;
    readonly doneTo?: number;
  }[];
  readonly more?: readonly { readonly key: string; readonly value: string }[];
  readonly destination?: (clock: VirtualClock) => FakeDestination;
}

/**
 * The engine on a ledger of ten events, of which an earlier version sent some with `aggregate: 1h`.
 */
async function upgraded({ cursor, ranges, more = [], destination }: Leftovers): Promise<Harness> {
  const ledger = createMemoryLedger();
  await ledger.append({ events: eventsOf(['a'], 10) });
  const records = [
    { key: 'delivery/fake/state', value: JSON.stringify({ type: 'noop', aggregatesFrom: 0 }) },
    ...ranges.map((range) => ({
      key: `delivery/fake/aggregated/${String(range.from).padStart(16, '0')}`,
      value: JSON.stringify(range),
    })),
    ...more,
  ];
  await ledger.commitCursor('fake', cursor, { from: 'none', records });
  const clock = createVirtualClock();
  const fake = destination?.(clock) ?? createFakeDestination({ now: () => clock.now() });
  return createHarness({ ledger, clock, destination: fake });
}

const letterOf = (event: UsageEvent): string =>
  JSON.stringify({ at: 0, reason: 'no', event: encodeEvent(event), parts: [1, 2, 3] });

test('an hour of which a part was sent as sums is sent once more, as events', async () => {
  const ranges = [
    { from: 0, to: 4 },
    { from: 4, to: 8, doneTo: 6 },
  ];
  const harness = await upgraded({ cursor: 4, ranges });
  await harness.start();
  await harness.clock.until(() => harness.delivery.status('fake')?.lastError !== undefined);
  expect(harness.delivery.status('fake')?.lastError).toBe(
    'an hour is half sent as sums (aggregate: 1h), which end with event 8: cursor: "4"; run the version before with aggregate: none until the cursor has passed it, or move the cursor there and enter by hand what is missing',
  );
  expect(harness.destination.taken).toStrictEqual([]);
  expect(await harness.delivery.moveCursor('fake', 8)).toMatchObject({ kind: 'moved' });
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-8', 'a-9']);
  await harness.stop();
});

test('what was sent as sums is sent once more by a cursor that goes on, or is put back', async () => {
  const harness = await upgraded({ cursor: 8, ranges: [{ from: 4, to: 8 }] });
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-8', 'a-9']);
  for (const force of [false, true]) {
    expect(await harness.delivery.moveCursor('fake', 7, force)).toStrictEqual({
      kind: 'failed',
      reason:
        'an earlier version sent events up to 8 as sums of hours, and would bill them a second time: cursor: "7"; choose 8 or more',
    });
  }
  expect(await harness.delivery.moveCursor('fake', 9)).toMatchObject({ kind: 'moved' });
  await harness.drained();
  expect(harness.destination.billedTwice).toStrictEqual([]);
  await harness.stop();
});

test('a sum that was refused is lost, or its events are sent in its place', async () => {
  const sum = testEvent({ tenant: 'a', id: 'agg1_0123' });
  const more = [{ key: `delivery/fake/dead/${'3'.padStart(16, '0')}`, value: letterOf(sum) }];
  const harness = await upgraded({ cursor: 10, ranges: [{ from: 0, to: 3 }], more });
  await harness.start();
  await harness.drained();
  expect(await harness.delivery.replay('fake', ['agg1_0123'])).toMatchObject({ replayed: 1 });
  expect(harness.destination.taken).toStrictEqual(['agg1_0123']);
  await harness.stop();
});

test('a destination is queried for an event of a minute whose others it has in the sum of an hour', async () => {
  const requested: unknown[] = [];
  const harness = await upgraded({
    cursor: 4,
    ranges: [{ from: 0, to: 4 }],
    destination: (clock) =>
      Object.assign(
        createFakeDestination({ limits: { idMemoryMs: DAY_MS }, now: () => clock.now() }),
        {
          verify: async (events: readonly UsageEvent[], _: AbortSignal, sameBucket: unknown) => {
            requested.push([events.map(({ id }) => id), sameBucket]);
            return { kind: 'verified', known: new Set(events.map(({ id }) => id)) } as const;
          },
        },
      ),
  });
  const late = testEvent({ tenant: 'a', id: 'late' });
  await harness.append(late);
  let calls = 0;
  harness.destination.react = () => {
    calls += 1;
    return calls === 1 ? 'lost' : 'unavailable';
  };
  await harness.start();
  await harness.clock.until(() => calls > 1);
  await harness.clock.pass(2 * DAY_MS);
  await harness.drained();
  expect(requested).toContainEqual([expect.arrayContaining(['late']), undefined]);
  await harness.stop();
});
