import { expect, test } from 'vitest';
import type { Destination } from '../../destinations/destination.ts';
import { override } from '../../model/override.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, type Harness, tenantNamed } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const NINE = TEST_WINDOW_START;
const HOURLY = { aggregate: '1h' } as const;

/** A destination that keeps whole events, on a clock of its own. */
function createWorld(change: Partial<Destination> = {}) {
  const clock = createVirtualClock();
  const inner = createFakeDestination({ now: () => clock.now(), verifies: true });
  const sent = new Map<string, UsageEvent>();
  const destination = override<Destination, typeof inner>(inner, {
    send: async (events, signal) => {
      const outcomes = await inner.send(events, signal);
      for (const [index, event] of events.entries()) {
        if (outcomes[index]?.kind === 'delivered') sent.set(event.id, event);
      }
      return outcomes;
    },
    ...change,
  });
  const harness = createHarness({ clock, destination });
  return { clock, inner, sent, harness };
}

/** The sum of what came, and of what is in the ledger. */
function total(events: Iterable<UsageEvent>): string {
  let nanos = 0n;
  for (const { quantity } of events) nanos += nanosFromDecimal(quantity);
  return decimalFromNanos(nanos);
}

async function untilHour({ clock }: Harness, hour: number): Promise<void> {
  await clock.pass(NINE + hour * HOUR_MS + 11 * MINUTE_MS - clock.now());
}

test('an hour of windows comes as one event for each series, and only once it is over', async () => {
  const { harness, sent } = createWorld();
  const events = eventsOf(['a', 'b'], 90);
  await harness.append(...events);
  await harness.start(HOURLY);
  await harness.clock.pass(50 * MINUTE_MS);
  expect(sent.size).toBe(0);
  expect(harness.delivery.status('fake')).toMatchObject({ lagSeconds: 0, ready: true });
  await untilHour(harness, 1);
  expect([...sent.values()]).toMatchObject([
    { tenant: 'a', quantity: '1.00000002', window_start: '2026-11-21T09:00:00Z' },
    { tenant: 'b', quantity: '1.00000002', window_end: '2026-11-21T10:00:00Z' },
  ]);
  expect(harness.delivery.status('fake')?.lagSeconds).toBeLessThan(900);
  await untilHour(harness, 2);
  expect(sent.size).toBe(4);
  expect(total(sent.values())).toBe(total(events));
  await harness.stop();
});

test('a part that comes late is an event of its own, and the sum before it is not sent again', async () => {
  const { harness, sent, inner } = createWorld();
  const [late, ...others] = eventsOf(['a'], 60);
  await harness.append(...others);
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  expect(inner.calls.flat()).toHaveLength(1);
  await harness.append(late as UsageEvent);
  await untilHour(harness, 2);
  expect(inner.calls.flat()).toHaveLength(2);
  expect(inner.calls.flat()[1]).toBe('a-0');
  expect(total(sent.values())).toBe(total([late as UsageEvent, ...others]));
  await harness.stop();
});

test('nothing is added up across the end of a billing period', async () => {
  const end = NINE + 20 * MINUTE_MS;
  const boundaries = async () => ({ kind: 'boundaries', at: [end] }) as const;
  const { harness, sent } = createWorld({ boundaries });
  await harness.append(...eventsOf(['a'], 60));
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  expect([...sent.values()].map((event) => [event.window_start, event.properties])).toStrictEqual([
    ['2026-11-21T09:00:00Z', { aggregated_events: 20 }],
    ['2026-11-21T09:20:00Z', { aggregated_events: 40 }],
  ]);
  await harness.stop();
});

test('nothing late is added up across the end of a period, however much was read before it', async () => {
  const end = NINE - 90 * MINUTE_MS;
  const { harness, sent } = createWorld({
    boundaries: async (_, { from, to }) => ({
      kind: 'boundaries',
      at: [end].filter((at) => at >= from && at < to),
    }),
  });
  const at = (id: string, windowStart: number) => testEvent({ tenant: 'a', id, windowStart });
  const others = Array.from({ length: 1_200 }, (_, index) => ({
    ...testEvent({ tenant: 'b', id: `b-${index}`, windowStart: NINE }),
    resource_id: `node-${index}`,
  }));
  await harness.append(at('a-now', NINE), ...others);
  await harness.append(at('before', end - 10 * MINUTE_MS), at('after', end + 10 * MINUTE_MS));
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  const own = [...sent.values()].filter(({ tenant }) => tenant === 'a').map(({ id }) => id);
  expect(own.toSorted()).toStrictEqual(['a-now', 'after', 'before']);
  await harness.stop();
});

test('a tenant that is offboarded gets its usage before, without waiting for the hour', async () => {
  const { harness, sent, inner } = createWorld();
  await harness.append(...eventsOf(['a'], 6));
  await harness.start(HOURLY);
  await harness.clock.pass(MINUTE_MS);
  expect(sent.size).toBe(0);
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.clock.pass(2 * MINUTE_MS);
  expect([...sent.values()]).toMatchObject([{ properties: { aggregated_events: 6 } }]);
  expect(inner.offboarded).toStrictEqual(['a']);
  await harness.stop();
});

test('a sum that is refused is one letter that names its parts, and is sent once when any of them is replayed', async () => {
  const { harness, sent, inner } = createWorld();
  inner.react = () => 'refuse';
  const events = eventsOf(['a'], 60);
  await harness.append(...events);
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 1, lagEvents: 0 });
  const page = await harness.delivery.deadLetters('fake', 0, 10);
  expect(page?.deadLetters[0]?.partIds).toStrictEqual(events.map(({ id }) => id));
  const reconciled = async () => {
    const day = Math.floor(NINE / (24 * HOUR_MS)) * 24 * HOUR_MS;
    const range = { from: day, to: day + 24 * HOUR_MS };
    const outcome = await harness.delivery.reconcile('fake', range, new AbortController().signal);
    return outcome.kind === 'reconciled' ? outcome.rows[0] : undefined;
  };
  expect(await reconciled()).toMatchObject({ delivered: '0', deadLetters: total(events) });
  inner.react = () => 'accept';
  const replayed = harness.delivery.replay('fake', ['a-17']);
  await harness.clock.pass(MINUTE_MS);
  expect(await replayed).toMatchObject({ replayed: 1, pending: 0 });
  expect(await harness.delivery.replay('fake', ['a-18'])).toMatchObject({ unknown: ['a-18'] });
  expect(total(sent.values())).toBe(total(events));
  expect(await reconciled()).toMatchObject({
    delivered: total(events),
    acknowledged: total(events),
    difference: '0',
  });
  await harness.stop();
});

test('a cursor that is put back into an hour sends the same sums again, not others', async () => {
  const { harness, inner } = createWorld();
  await harness.append(...eventsOf(['a', 'b'], 60));
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  const before = inner.calls.flat();
  expect(before).toHaveLength(2);
  const moved = await harness.delivery.moveCursor('fake', 31);
  expect(moved).toMatchObject({ kind: 'moved', sequence: 0 });
  await harness.drained();
  expect(inner.calls.flat()).toStrictEqual([...before, ...before]);
  expect(inner.billedTwice).toStrictEqual([]);
  await harness.stop();
});

test('what may have been sent as it is before hours are added up stays as it is', async () => {
  const { harness, sent, inner } = createWorld();
  inner.react = () => 'lost';
  const events = eventsOf(['a'], 5);
  await harness.append(...events);
  await harness.start();
  await harness.clock.pass(1_000);
  expect(inner.taken.length).toBe(5);
  inner.react = () => 'accept';
  await harness.start(HOURLY);
  const later = Array.from({ length: 50 }, (_, index) =>
    testEvent({ tenant: 'a', id: `later-${index}`, windowStart: NINE + (index + 5) * MINUTE_MS }),
  );
  await harness.clock.pass(10 * MINUTE_MS);
  await harness.append(...later);
  await untilHour(harness, 1);
  expect(inner.taken).toHaveLength(6);
  expect(total(sent.values())).toBe(total([...events, ...later]));
  await harness.stop();
});

test('usage that is set aside while an hour is being sent is sent later, without a restart', async () => {
  const { harness, sent, inner } = createWorld();
  const events = eventsOf(['a', 'b'], 60);
  inner.react = () => 'unavailable';
  inner.reactToTenant = ({ id }) =>
    id === 'b' ? { kind: 'rejected', reason: 'no plan' } : { kind: 'done' };
  await harness.append(...events);
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  await harness.clock.pass(30 * MINUTE_MS);
  inner.react = () => 'accept';
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 1 });
  inner.reactToTenant = () => ({ kind: 'done' });
  await harness.clock.pass(HOUR_MS);
  expect(total(sent.values())).toBe(total(events));
  await harness.stop();
});

test('a billing system that does not tell its periods is asked ever more seldom', async () => {
  let asked = 0;
  const boundaries = async () => {
    asked += 1;
    return { kind: 'retry', reason: 'connection reset' } as const;
  };
  const { harness } = createWorld({ boundaries });
  await harness.append(...eventsOf(['a'], 60));
  await harness.start(HOURLY);
  await untilHour(harness, 1);
  await harness.clock.pass(4 * HOUR_MS);
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'connection reset' });
  // Every five minutes at the latest, and that is not cut short.
  expect(asked).toBeLessThan(150);
  await harness.stop();
});
