import { expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { TEST_WINDOW_MS, testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { signedFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import {
  createHarness,
  type Harness,
  TEST_MAX_BACKFILL_MS,
  tenantNamed,
} from '../testing/harness.ts';
import { createPlanWorld, type PlanWorld } from '../testing/plan-destination.ts';
import { createVirtualClock, type VirtualClock } from '../testing/virtual-clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

interface World extends PlanWorld {
  readonly clock: VirtualClock;
  readonly harness: Harness;
  /** Lets a minute pass, then closes the window that it was with an event of each tenant. */
  readonly minute: (...tenants: string[]) => Promise<void>;
  readonly minutes: (count: number, ...tenants: string[]) => Promise<void>;
}

function createWorld(options: Omit<Parameters<typeof createPlanWorld>[0], 'now'> = {}): World {
  const clock = createVirtualClock();
  const plans = createPlanWorld({ ...options, now: () => clock.now() });
  const harness = createHarness({ clock, destination: plans.destination });
  return worldOf(plans, clock, harness);
}

function worldOf(plans: PlanWorld, clock: VirtualClock, harness: Harness): World {
  const minute = async (...tenants: string[]): Promise<void> => {
    const start = Math.floor(clock.now() / TEST_WINDOW_MS) * TEST_WINDOW_MS;
    await clock.pass(start + TEST_WINDOW_MS - clock.now());
    const events = tenants.map((tenant) => eventAt(tenant, start));
    await harness.ledger.append({ events, windowEnd: start + TEST_WINDOW_MS });
    await clock.settle();
  };
  return Object.assign(plans, {
    clock,
    harness,
    minute,
    minutes: async (count: number, ...tenants: string[]) => {
      for (let index = 0; index < count; index += 1) await minute(...tenants);
    },
  });
}

function eventAt(tenant: string, windowStart: number): UsageEvent {
  const time = new Date(windowStart).toISOString().slice(5, 16);
  return testEvent({ tenant, id: `${tenant} ${time}`, windowStart });
}

/** What was billed of a tenant by a plan, `MM-DDTHH:MM` of each window. */
function billedBy({ billed }: PlanWorld, tenant: string, plan: string | undefined): string[] {
  return billed()
    .filter((one) => one.tenant === tenant && one.plan === plan)
    .map(({ id }) => id.slice(tenant.length + 1));
}

test('the window that is open when the plan changes is billed by the old plan', async () => {
  const world = createWorld();
  const { harness, minutes } = world;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(3, 't');
  await world.clock.pass(30_000);
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(6, 't');
  await world.clock.pass(5 * MINUTE_MS);
  expect(billedBy(world, 't', 'a')).toStrictEqual([
    '11-21T09:05',
    '11-21T09:06',
    '11-21T09:07',
    '11-21T09:08',
  ]);
  expect(billedBy(world, 't', 'b')).toHaveLength(5);
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  expect(world.changes).toHaveLength(1);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, planChanges: [] });
  await harness.stop();
});

test('nobody else waits while a tenant changes its plan', async () => {
  const world = createWorld();
  const { harness, minutes } = world;
  world.reactToChange = () => 'retry';
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't', 'u');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(10, 't', 'u');
  expect(billedBy(world, 'u', 'a')).toHaveLength(12);
  const status = harness.delivery.status('fake');
  expect(status).toMatchObject({ ready: true, lagEvents: 0, parked: 10 });
  expect(status?.parkedTenants).toStrictEqual([]);
  expect(status?.planChanges).toMatchObject([
    { tenant: 't', from: 'a', to: 'b', problem: 'no change now' },
  ]);
  world.reactToChange = () => 'change';
  await world.clock.pass(10 * MINUTE_MS);
  expect(billedBy(world, 't', 'b')).toHaveLength(10);
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('a wish that returns before the change is made leaves the plan as it is', async () => {
  const world = createWorld();
  const { harness, minutes } = world;
  world.quiet = (now) => now + HOUR_MS;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await world.clock.settle();
  expect(harness.delivery.status('fake')?.planChanges).toHaveLength(1);
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await minutes(5, 't');
  await world.clock.pass(5 * MINUTE_MS);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, planChanges: [] });
  expect(billedBy(world, 't', 'a')).toHaveLength(7);
  expect(world.changes).toStrictEqual([]);
  await harness.stop();
});

test('no change is made while the billing system makes invoices', async () => {
  const world = createWorld();
  const { harness, minutes, clock } = world;
  const quietUntil = clock.now() + 2 * HOUR_MS;
  world.quiet = (now) => (now < quietUntil ? quietUntil : undefined);
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(60, 't');
  expect(world.changes).toStrictEqual([]);
  await minutes(65, 't');
  expect(world.plansOf('t').at(-1)?.from).toBeGreaterThanOrEqual(quietUntil);
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('a change at the end of the period waits for it, through restarts', async () => {
  const first = createWorld();
  const end = Date.UTC(2026, 11, 1);
  first.periodEndOf = () => end;
  first.harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await first.harness.start();
  await first.minutes(2, 't');
  first.harness.tenants.set(tenantNamed('t', { plan: 'b', planChange: 'period-end' }));
  await first.minutes(2, 't');
  expect(first.harness.delivery.status('fake')?.planChanges).toMatchObject([
    { tenant: 't', from: 'a', to: 'b', at: end },
  ]);
  await first.harness.stop();

  const { clock } = first;
  await clock.pass(end - 5 * MINUTE_MS - clock.now());
  const harness = createHarness({
    clock,
    ledger: first.harness.ledger,
    destination: first.destination,
  });
  const second = worldOf(first, clock, harness);
  harness.tenants.set(tenantNamed('t', { plan: 'b', planChange: 'period-end' }));
  await harness.start();
  await second.minutes(15, 't');
  const byB = billedBy(second, 't', 'b');
  expect(byB[0]).toBe('12-01T00:00');
  expect(billedBy(second, 't', 'a').at(-1)).toBe('11-30T23:59');
  expect(billedBy(second, 't', undefined)).toStrictEqual([]);
  expect(second.changes).toMatchObject([{ before: end }]);
  await harness.stop();
});

test('a change at the end of the period is forgotten when the wish returns, and made at once when that is wanted', async () => {
  const world = createWorld();
  const { harness, minutes, clock } = world;
  world.periodEndOf = (now) => now + 9 * DAY_MS;
  harness.tenants.set(tenantNamed('t', { plan: 'a', planChange: 'period-end' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b', planChange: 'period-end' }));
  await minutes(2, 't');
  expect(harness.delivery.status('fake')?.planChanges).toHaveLength(1);
  harness.tenants.set(tenantNamed('t', { plan: 'a', planChange: 'period-end' }));
  await clock.settle();
  expect(harness.delivery.status('fake')?.planChanges).toStrictEqual([]);
  harness.tenants.set(tenantNamed('t', { plan: 'b', planChange: 'period-end' }));
  await clock.settle();
  harness.tenants.set(tenantNamed('t', { plan: 'b', planChange: 'now' }));
  await minutes(6, 't');
  expect(world.plansOf('t').map(({ plan }) => plan)).toStrictEqual(['a', 'b']);
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('late usage of the old plan is billed by it as long as it can be, and by the new one after that', async () => {
  const world = createWorld({ graceMs: HOUR_MS });
  const { harness, minutes, clock } = world;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(6, 't');
  expect(world.plansOf('t')).toHaveLength(2);
  const start = Date.UTC(2026, 10, 21, 9, 0);
  await harness.append(eventAt('t', start - 10 * MINUTE_MS));
  await minutes(1, 't');
  await clock.pass(2 * HOUR_MS);
  await harness.append(eventAt('t', start - 20 * MINUTE_MS));
  await minutes(1, 't');
  expect(billedBy(world, 't', 'a')).toContain('11-21T08:50');
  expect(billedBy(world, 't', 'b')).toContain('11-21T08:40');
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('late usage of the old plan is sent while the disk is full, and is billed by no plan', async () => {
  const clock = createVirtualClock();
  const plans = createPlanWorld({ now: () => clock.now() });
  const memory = createMemoryLedger();
  let isFull = false;
  const ledger: Ledger = {
    ...memory,
    writeRecords: async (...call) =>
      isFull
        ? { kind: 'failed', cause: 'retryable', message: 'disk full' }
        : memory.writeRecords(...call),
  };
  const harness = createHarness({ clock, ledger, destination: plans.destination });
  const world = worldOf(plans, clock, harness);
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await world.minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await world.minutes(6, 't');
  await clock.pass(5 * MINUTE_MS);
  expect(plans.changes).toHaveLength(1);
  isFull = true;
  const late = { ...eventAt('t', Date.parse('2026-11-21T09:06:00Z')), id: 't late' };
  await harness.append(late);
  await clock.pass(10 * MINUTE_MS);
  expect(plans.destination.taken).not.toContain('t late');
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'disk full' });
  isFull = false;
  await harness.drained();
  expect(billedBy(world, 't', 'b')).toContain('late');
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('a dead letter of the old plan does not hold the change, and is billed when it is replayed', async () => {
  const world = createWorld();
  const { harness, minutes, destination } = world;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  destination.react = (events) =>
    events.map(({ id }) =>
      id === 't 11-21T09:05' ? { kind: 'rejected', reason: 'no' } : { kind: 'delivered' },
    );
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(6, 't');
  expect(world.plansOf('t')).toHaveLength(2);
  destination.react = () => 'accept';
  const replayed = harness.delivery.replay('fake', undefined);
  await world.clock.pass(MINUTE_MS);
  expect(await replayed).toMatchObject({ replayed: 1 });
  expect(billedBy(world, 't', 'b')).toContain('11-21T09:05');
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});

test('a change waits for gaps that may still be filled, but not for ever', async () => {
  const world = createWorld();
  const { harness, minutes, clock } = world;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  harness.tenants.openGaps.add('t');
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(10, 't');
  expect(world.changes).toStrictEqual([]);
  await clock.pass(TEST_MAX_BACKFILL_MS);
  await minutes(2, 't');
  expect(world.plansOf('t')).toHaveLength(2);
  await harness.stop();
});

test('a tenant that leaves keeps its plan to the end', async () => {
  const world = createWorld();
  const { harness, minutes, clock } = world;
  world.quiet = (now) => now + HOUR_MS;
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(1, 't');
  harness.tenants.remove('t');
  await harness.delivery.offboard(tenantNamed('t', { plan: 'b' }));
  await clock.pass(10 * MINUTE_MS);
  expect(world.destination.offboarded).toStrictEqual(['t']);
  expect(world.changes).toStrictEqual([]);
  expect(billedBy(world, 't', 'a')).toHaveLength(3);
  await harness.stop();
});

test('what the destination adds up is waited for, but not for ever', async () => {
  const world = createWorld();
  const { harness, minutes, clock } = world;
  let knows = false;
  world.destination.sums = {
    total: async ({ tenant, from, to }) => {
      const counted = world
        .billed()
        .filter((one) => knows && one.tenant === tenant.id && from <= one.at && one.at < to);
      const nanos = counted.reduce((sum, one) => sum + one.nanos, 0n);
      return { kind: 'total', quantity: signedFromNanos(nanos) };
    },
  };
  harness.tenants.set(tenantNamed('t', { plan: 'a' }));
  await harness.start();
  await minutes(2, 't');
  harness.tenants.set(tenantNamed('t', { plan: 'b' }));
  await minutes(10, 't');
  expect(world.changes).toStrictEqual([]);
  knows = true;
  await minutes(2, 't');
  expect(world.plansOf('t')).toHaveLength(2);
  knows = false;
  harness.tenants.set(tenantNamed('t', { plan: 'c' }));
  await minutes(40, 't');
  await clock.settle();
  expect(world.plansOf('t')).toHaveLength(3);
  expect(harness.lines).toContain(
    'warn [fake] the sums of tenant t still differ after half an hour; changing its plan now',
  );
  expect(billedBy(world, 't', undefined)).toStrictEqual([]);
  await harness.stop();
});
