import { expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { StepOutcome } from '../../destinations/destination.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import {
  createHarness,
  eventsOf,
  type Harness,
  tenantNamed,
  testSettings,
} from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';

const FAILED = { kind: 'failed', cause: 'retryable', message: 'disk full' } as const;

/** The destination knows the tenant `a`, and has its only event. */
async function deliveredToTenant(): Promise<Harness> {
  const harness = createHarness();
  harness.tenants.set(tenantNamed('a'));
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  return harness;
}

/** The destination fails to take the next change of a tenant. */
function failsOnce({ destination }: Harness): void {
  const answers: StepOutcome[] = [{ kind: 'retry', reason: 'status 503' }];
  destination.reactToTenant = () => answers.shift() ?? { kind: 'done' };
}

test('a bug in one step ends delivery, or passes unnoticed', async () => {
  const memory = createMemoryLedger();
  let isBroken = false;
  const ledger: Ledger = {
    ...memory,
    read: async (...call) => {
      if (isBroken) throw new Error('a bug');
      return memory.read(...call);
    },
  };
  const harness = createHarness({ ledger });
  await harness.start();
  isBroken = true;
  await harness.append(...eventsOf(['a']));
  await harness.clock.pass(60_000);
  expect(harness.lines).toContain('warn [fake] delivery failed: a bug');
  expect(harness.delivery.status('fake')).toMatchObject({
    delivering: false,
    lastError: 'delivery failed: a bug',
  });
  isBroken = false;
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  await harness.stop();
});

test('events are sent before the cursor could be made', async () => {
  const memory = createMemoryLedger();
  let isFull = true;
  const ledger: Ledger = {
    ...memory,
    commitCursor: async (...call) => (isFull ? FAILED : memory.commitCursor(...call)),
  };
  const harness = createHarness({ ledger });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.clock.pass(60_000);
  expect(harness.destination.calls).toStrictEqual([]);
  expect(harness.destination.bootstraps).toStrictEqual([]);
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'disk full' });
  isFull = false;
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  await harness.stop();
});

test('a ledger that can be read again still looks as if it could not', async () => {
  const memory = createMemoryLedger();
  let isBroken = false;
  const ledger: Ledger = {
    ...memory,
    read: async (...call) => (isBroken ? FAILED : memory.read(...call)),
  };
  const destination = createFakeDestination({ accepts: () => false });
  const harness = createHarness({ ledger, destination });
  await harness.start();
  isBroken = true;
  await harness.append(...eventsOf(['a']));
  await harness.clock.pass(600_000);
  const tries = harness.lines.filter((line) => line.includes('disk full')).length;
  expect(tries).toBeGreaterThan(0);
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'disk full' });
  isBroken = false;
  await harness.drained();
  await harness.clock.settle();
  expect(harness.delivery.status('fake')).toMatchObject({ delivering: true, skipped: 1 });
  expect(harness.delivery.status('fake')).not.toMatchObject({ lastError: expect.anything() });
  await harness.stop();
});

test('a tenant that changes is not provisioned again, since it failed once or has no usage', async () => {
  const harness = await deliveredToTenant();
  failsOnce(harness);
  harness.tenants.set(tenantNamed('a', { displayName: 'A' }));
  await harness.clock.settle();
  expect(harness.destination.provisioned.at(-1)).not.toMatchObject({ displayName: 'A' });
  harness.tenants.set(tenantNamed('other'));
  await harness.clock.until(() => harness.destination.provisioned.at(-1)?.displayName === 'A');
  await harness.stop();
});

test('a change of a tenant that failed once is lost until another tenant changes', async () => {
  const harness = await deliveredToTenant();
  failsOnce(harness);
  harness.tenants.set(tenantNamed('a', { plan: 'gold' }));
  await harness.clock.settle();
  await harness.append(...eventsOf(['other']));
  await harness.drained();
  expect(harness.destination.provisioned).toContainEqual(expect.objectContaining({ plan: 'gold' }));
  await harness.stop();
});

test('a change of one tenant that fails delays the events of others', async () => {
  const harness = await deliveredToTenant();
  harness.tenants.set(tenantNamed('a', { displayName: 'A' }));
  await harness.clock.settle();
  expect(harness.lines).toStrictEqual([]);
  harness.destination.reactToTenant = ({ id }) =>
    id === 'a' ? { kind: 'retry', reason: 'status 503' } : { kind: 'done' };
  harness.tenants.set(tenantNamed('a', { displayName: 'B' }));
  await harness.append(...eventsOf(['b']));
  const before = harness.clock.monotonic();
  await harness.drained();
  expect(harness.clock.monotonic()).toBe(before);
  expect(harness.destination.taken).toStrictEqual(['a-0', 'b-0']);
  await harness.stop();
});

test('a key that was revoked goes unnoticed while tenants change and nothing is used', async () => {
  const harness = await deliveredToTenant();
  harness.destination.reactToTenant = () => ({ kind: 'blocked', reason: 'status 401' });
  harness.tenants.set(tenantNamed('a', { displayName: 'A' }));
  await harness.clock.settle();
  expect(harness.delivery.status('fake')).toMatchObject({ ready: false, blocked: 'status 401' });
  await harness.stop();
});

test('events are sent with a key that was refused for one of their tenants a moment ago', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  harness.destination.reactToTenant = () => ({ kind: 'blocked', reason: 'status 401' });
  await harness.append(...eventsOf(['a', 'b'], 2).slice(1));
  await harness.clock.settle();
  expect(harness.destination.calls).toStrictEqual([['a-0']]);
  harness.destination.reactToTenant = () => ({ kind: 'done' });
  await harness.drained();
  expect(harness.destination.taken.toSorted()).toStrictEqual(['a-0', 'a-1', 'b-0', 'b-1']);
  await harness.stop();
});

test('a tenant is parked because the destination limits the rate of its events', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.some(({ tenant }) => tenant === 'slow') ? 'limited' : 'accept';
  await harness.append(...eventsOf(['slow', 'a'], 5));
  await harness.start();
  await harness.clock.pass(3_600_000);
  expect(harness.destination.taken).toContain('a-4');
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0 });
  harness.destination.react = () => 'accept';
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(10);
  await harness.stop();
});

test('a ledger that fails is read in a tight loop, or too seldom once it was read again', async () => {
  const memory = createMemoryLedger();
  let isBroken = true;
  const reads: number[] = [];
  const ledger: Ledger = {
    ...memory,
    read: async (...call) => {
      if (!isBroken) return memory.read(...call);
      reads.push(harness.clock.monotonic());
      return FAILED;
    },
  };
  const harness = createHarness({ ledger });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  const start = harness.clock.monotonic();
  await harness.clock.pass(16_000);
  // Half of 1 s, 2 s, 4 s and so on.
  const waits = [0, 500, 1_500, 3_500, 7_500, 15_500];
  expect(reads.map((at) => at - start)).toStrictEqual(waits);
  isBroken = false;
  await harness.drained();
  isBroken = true;
  reads.length = 0;
  const again = harness.clock.monotonic();
  await harness.append(...eventsOf(['b']));
  await harness.clock.pass(4_000);
  expect(reads.map((at) => at - again)).toStrictEqual(waits.slice(0, 4));
  isBroken = false;
  await harness.drained();
  await harness.stop();
});

test('what was settled in a batch counts as tried again', async () => {
  const harness = createHarness();
  let isDown = true;
  harness.destination.react = (events) =>
    events.map(({ tenant }) => {
      if (tenant === 'refused') return { kind: 'rejected', reason: 'no' };
      if (tenant === 'bad' && isDown) return { kind: 'retry', reason: 'status 503' };
      return { kind: 'delivered' };
    });
  await harness.append(...eventsOf(['bad', 'refused', 'a']));
  await harness.start();
  const text = await harness.registry.metrics();
  expect(text).toContain('meterfeed_destination_retried_total{destination="fake"} 1');
  isDown = false;
  await harness.drained();
  expect(harness.destination.taken).toContain('bad-0');
  await harness.stop();
});

test('a destination begins again where another one stands', async () => {
  const [first, second] = ['first', 'second'].map((name) => createFakeDestination({ name }));
  if (first === undefined || second === undefined) throw new Error('no destinations');
  const destinations = new Map([
    ['first', first],
    ['second', second],
  ]);
  const harness = createHarness({ destinations });
  second.react = () => 'unavailable';
  await harness.append(...eventsOf(['a'], 3));
  await harness.start({ name: 'first' });
  await harness.delivery.apply([testSettings({ name: 'first' }), testSettings({ name: 'second' })]);
  await harness.clock.until(() => harness.delivery.status('first')?.cursor === 3);
  // An operator moves the cursor of the second past its first event, in the ledger.
  await harness.ledger.moveCursor('second', 1);
  second.react = () => 'accept';
  await harness.clock.until(() => harness.delivery.status('second')?.cursor === 3);
  expect(second.taken.toSorted()).toStrictEqual(['a-0', 'a-1', 'a-2']);
  await harness.append(...eventsOf(['b']));
  await harness.clock.until(() => harness.delivery.status('second')?.cursor === 4);
  expect(first.taken).toHaveLength(4);
  expect(second.taken).toHaveLength(4);
  await harness.stop();
});

test('events of a parked tenant are counted twice after the cursor was moved, and it stays parked for ever', async () => {
  const harness = createHarness();
  let hasPlan = false;
  harness.destination.reactToTenant = ({ id }) =>
    id === 'bad' && !hasPlan ? { kind: 'rejected', reason: 'no plan' } : { kind: 'done' };
  await harness.append(...eventsOf(['bad', 'a']));
  await harness.start();
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 1 });
  await harness.append(...eventsOf(['b']));
  await harness.drained();
  expect(await harness.delivery.moveCursor('fake', 2)).toMatchObject({ kind: 'moved' });
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 1 });
  hasPlan = true;
  await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
  await harness.append({ ...testEvent({ tenant: 'bad' }), id: 'bad-later' });
  await harness.drained();
  expect(harness.destination.taken.toSorted()).toStrictEqual(['a-0', 'b-0', 'bad-0', 'bad-later']);
  await harness.stop();
});

test('events of a parked tenant count twice because a read failed while their feeder began', async () => {
  const first = createHarness();
  first.destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
  await first.append(...eventsOf(['bad'], 3));
  await first.start();
  await first.drained();
  await first.stop();

  let isBroken = true;
  const ledger: Ledger = {
    ...first.ledger,
    async *records(prefix) {
      if (isBroken && prefix.includes('/offboard/')) throw new Error('disk error');
      yield* first.ledger.records(prefix);
    },
  };
  const harness = createHarness({ ledger });
  harness.destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
  await harness.start();
  await harness.clock.pass(10_000);
  expect(harness.lines).toContain('warn [fake] delivery failed: disk error');
  isBroken = false;
  await harness.clock.until(() => harness.delivery.status('fake')?.delivering === true);
  expect(harness.delivery.status('fake')).toMatchObject({
    parked: 3,
    parkedTenants: [{ tenant: 'bad', events: 3 }],
  });
  await harness.stop();
});

test('a status of many problems is too large for the API server, or leaves out the newest', async () => {
  const refusals = Array.from({ length: 25 }, (_, at) => ({ at, events: 1, reason: `no. ${at}` }));
  const destination = createFakeDestination();
  const harness = createHarness({
    destination: Object.assign(destination, {
      prices: {
        compare: async () => ({ kind: 'failed' as const, reason: 'not here' }),
        unpriced: () => refusals.map(({ reason }) => ({ metric: reason })),
      },
      alerts: {
        current: async () => ({ kind: 'failed' as const, reason: 'not here' }),
        lateRefusals: () => refusals,
      },
    }),
  });
  await harness.start();
  expect(harness.delivery.status('fake')).toMatchObject({
    unpriced: refusals.slice(0, 20).map(({ reason }) => ({ metric: reason })),
    lateRefusals: refusals.toReversed().slice(0, 20),
  });
  await harness.stop();
});

test('a suspended destination is sent events, or reported as one that fails', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['a']));
  await harness.start({ suspend: true });
  await harness.clock.pass(60_000);
  expect(harness.destination.calls).toStrictEqual([]);
  expect(harness.lines).toStrictEqual([]);
  expect(harness.delivery.status('fake')).toMatchObject({
    suspended: true,
    ready: false,
    unpriced: [],
    lateRefusals: [],
    planChanges: [],
  });
  expect(harness.delivery.status('fake')).not.toMatchObject({ lastError: expect.anything() });
  await harness.stop();
});

test('a comparison takes the progress of another destination for its own', async () => {
  const clock = createVirtualClock();
  const day = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
  const destinations = new Map(
    ['first', 'second'].map((name) => [name, createFakeDestination({ name })]),
  );
  const harness = createHarness({ clock, destinations });
  await harness.append(...eventsOf(['a'], 3));
  await harness.start({ name: 'first' });
  const second = testSettings({ name: 'second', suspend: true });
  await harness.delivery.apply([testSettings({ name: 'first' }), second]);
  await harness.clock.until(() => harness.delivery.status('first')?.cursor === 3);
  await harness.clock.settle();
  const { signal } = new AbortController();
  const outcome = await harness.delivery.reconcile('second', day, signal);
  expect(outcome).toMatchObject({ rows: [{ ledger: '0.050000001', delivered: '0' }] });
  await harness.stop();
});
