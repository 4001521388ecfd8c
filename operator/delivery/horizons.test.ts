import { describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import {
  createFakeDestination,
  type FakeDestination,
  type Reaction,
} from './testing/fake-destination.ts';
import { createHarness, eventsOf, type Harness } from './testing/harness.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function forgetful(clock: VirtualClock, verifies = true): FakeDestination {
  const limits = { idMemoryMs: DAY_MS, maxAgeMs: 35 * DAY_MS };
  return createFakeDestination({ limits, verifies, now: () => clock.now() });
}

/** The destination took the first batch and did not say so; then the process died. */
async function diedAfterLost(clock: VirtualClock, destination: FakeDestination): Promise<Ledger> {
  const harness = createHarness({ clock, destination });
  destination.react = () => 'lost';
  await harness.append(...eventsOf(['a', 'b'], 3));
  await harness.start();
  await harness.stop();
  return harness.ledger;
}

/** The connection broke before the destination took the events; then the process died. */
async function diedAfterReset(
  clock: VirtualClock,
  destination: FakeDestination,
  tenants: readonly string[] = ['a'],
): Promise<Ledger> {
  const harness = createHarness({ clock, destination });
  destination.react = () => 'reset';
  await harness.append(...eventsOf(tenants));
  await harness.start();
  await harness.stop();
  return harness.ledger;
}

async function resume(
  ledger: Ledger,
  clock: VirtualClock,
  destination: FakeDestination,
): Promise<Harness> {
  const harness = createHarness({ ledger, clock, destination });
  destination.react = () => 'accept';
  await harness.start();
  await harness.drained();
  return harness;
}

describe('an outcome that is not known', () => {
  test('is sent again while the destination remembers the ids', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const ledger = await diedAfterLost(clock, destination);
    await clock.pass(10 * HOUR_MS);
    const harness = await resume(ledger, clock, destination);
    expect(destination.calls).toHaveLength(2);
    expect(destination.billedTwice).toStrictEqual([]);
    await harness.stop();
  });

  test('is queried, not sent blindly, when the destination has forgotten', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const ledger = await diedAfterLost(clock, destination);
    await clock.pass(2 * DAY_MS);
    const harness = await resume(ledger, clock, destination);
    expect(destination.calls).toHaveLength(1);
    expect(destination.billedTwice).toStrictEqual([]);
    expect(destination.taken).toHaveLength(6);
    expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 0, delivered: 6 });
    await harness.stop();
  });

  test.each([-12, -3, 12])(
    'is not billed twice though the clock was set by %i hours meanwhile',
    async (hours) => {
      const clock = createVirtualClock();
      const destination = createFakeDestination({
        limits: { idMemoryMs: DAY_MS },
        verifies: true,
        now: () => clock.monotonic(),
      });
      const ledger = await diedAfterLost(clock, destination);
      clock.step(hours * HOUR_MS);
      await clock.pass(25 * HOUR_MS);
      const harness = await resume(ledger, clock, destination);
      expect(destination.billedTwice).toStrictEqual([]);
      expect(destination.taken).toHaveLength(6);
      await harness.stop();
    },
  );

  test('delays the later events of its tenant while the destination cannot be queried', async () => {
    const clock = createVirtualClock();
    const fake = forgetful(clock);
    const ledger = await diedAfterReset(clock, fake, ['a', 'b']);
    await clock.pass(2 * DAY_MS);
    let requested = 0;
    const destination: FakeDestination = {
      ...fake,
      verify: async () => {
        requested += 1;
        if (requested < 3) return { kind: 'retry', reason: 'status 503' };
        return { kind: 'verified', known: new Set() };
      },
    };
    fake.react = () => 'accept';
    const harness = createHarness({ ledger, clock, destination });
    const later = { windowStart: clock.now() };
    await harness.append(testEvent({ ...later, tenant: 'a', id: 'a-later' }));
    await harness.append(testEvent({ ...later, tenant: 'c', id: 'c-later' }));
    await harness.start();
    await harness.drained();
    expect(fake.taken).toStrictEqual(['c-later', 'a-0', 'b-0', 'a-later']);
    await harness.stop();
  });

  test('is sent when the destination says that it does not have it', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const ledger = await diedAfterReset(clock, destination);
    await clock.pass(2 * DAY_MS);
    const harness = await resume(ledger, clock, destination);
    expect(destination.taken).toStrictEqual(['a-0']);
    await harness.stop();
  });

  test('becomes a dead letter where the destination has forgotten and cannot be queried', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, false);
    const ledger = await diedAfterLost(clock, destination);
    await clock.pass(2 * DAY_MS);
    const harness = await resume(ledger, clock, destination);
    expect(destination.billedTwice).toStrictEqual([]);
    expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 6 });
    await harness.stop();
  });

  test('is not sent blindly either when the process never stopped', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const harness = createHarness({ clock, destination });
    destination.react = () => 'lost';
    await harness.append(...eventsOf(['a']));
    await harness.start();
    destination.react = () => 'reset';
    await clock.pass(3 * DAY_MS);
    destination.react = () => 'accept';
    await harness.drained();
    expect(destination.billedTwice).toStrictEqual([]);
    await harness.stop();
  });

  test('is not billed twice though its tenant was unknown for days in between', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const harness = createHarness({ clock, destination });
    const reactions: Reaction[] = ['lost', [{ kind: 'provision', reason: 'no such customer' }]];
    destination.react = () => reactions.shift() ?? 'accept';
    await harness.append(...eventsOf(['a']));
    await harness.start();
    await clock.until(() => reactions.length === 1);
    destination.reactToTenant = () => ({ kind: 'retry', reason: 'status 503' });
    await clock.until(() => reactions.length === 0);
    await clock.pass(2 * DAY_MS);
    expect(harness.delivery.status('fake')).toMatchObject({ parked: 1 });
    destination.reactToTenant = () => ({ kind: 'done' });
    await clock.until(() => harness.delivery.status('fake')?.parked === 0);
    expect(destination.billedTwice).toStrictEqual([]);
    expect(destination.taken).toStrictEqual(['a-0']);
    await harness.stop();
  });

  test('is known, and needs no force, once the destination was queried and then refused it', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const ledger = await diedAfterReset(clock, destination);
    await clock.pass(2 * DAY_MS);
    const harness = createHarness({ ledger, clock, destination });
    destination.react = () => [{ kind: 'rejected', reason: 'no such code' }];
    await harness.start();
    await harness.drained();
    const page = await harness.delivery.deadLetters('fake', 0, 10);
    expect(page?.deadLetters).toMatchObject([{ reason: 'no such code' }]);
    expect(page?.deadLetters[0]).not.toMatchObject({ unansweredSince: expect.anything() });
    await harness.stop();
  });

  test('leaves no record behind once it is settled', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock);
    const ledger = await diedAfterLost(clock, destination);
    const harness = await resume(ledger, clock, destination);
    expect(await ledger.record('delivery/fake/in-flight')).toBeUndefined();
    await harness.stop();
  });
});

test('without a record of what is in flight such an event is billed twice', async () => {
  const clock = createVirtualClock();
  const destination = forgetful(clock);
  const ledger = await diedAfterLost(clock, destination);
  await ledger.writeRecords([{ key: 'delivery/fake/in-flight', value: undefined }]);
  await clock.pass(2 * DAY_MS);
  const harness = await resume(ledger, clock, destination);
  expect(destination.billedTwice).toHaveLength(6);
  await harness.stop();
});

test('a cursor moved back queries what was delivered before', async () => {
  const clock = createVirtualClock();
  const destination = forgetful(clock);
  const harness = createHarness({ clock, destination });
  await harness.append(...eventsOf(['a'], 4));
  await harness.start();
  await harness.drained();
  await clock.pass(3 * DAY_MS);
  const outcome = await harness.delivery.moveCursor('fake', 0);
  expect(JSON.stringify(outcome)).toContain('remembers ids for 24 hours');
  await harness.drained();
  expect(destination.billedTwice).toStrictEqual([]);
  expect(destination.calls).toHaveLength(1);
  await harness.stop();
});

test('an event older than the destination accepts becomes a visible dead letter', async () => {
  const clock = createVirtualClock();
  const destination = forgetful(clock);
  const harness = createHarness({ clock, destination });
  await harness.append(...eventsOf(['a']));
  await clock.pass(36 * DAY_MS);
  await harness.start();
  await harness.drained();
  expect(destination.calls).toHaveLength(0);
  const page = await harness.delivery.deadLetters('fake', 0, 10);
  expect(page?.deadLetters[0]?.reason).toBe(
    'older than the 35 days that the destination accepts: window_start: "2026-11-21T09:00:00Z"',
  );
  await harness.stop();
});
