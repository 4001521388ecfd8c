import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_MS, testEvent } from '../ledger/testing/events.ts';
import type { UsageEvent } from '../model/event.ts';
import type { PlanChange } from '../model/tenant.ts';
import { createDeliveryRecords } from './records/delivery-records.ts';
import { createMortalProcess, type MortalProcess } from './testing/crash.ts';
import type { Reaction } from './testing/fake-destination.ts';
import { createHarness, type Harness, tenantNamed } from './testing/harness.ts';
import { createPlanWorld, type PlanWorld } from './testing/plan-destination.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const TENANTS = ['t', 'u', 'v'];

/** What happens in a minute, besides an event of each tenant. */
interface Minute {
  readonly wish?: { readonly tenant: string; readonly plan: string; readonly mode: PlanChange };
  /** An event of a window so many minutes ago, for which there was none yet. */
  readonly late?: { readonly tenant: string; readonly minutesAgo: number };
  /** Minutes in which nothing is metered. */
  readonly pause: number;
}

/** One run of the process, from its start to its sudden end. */
interface Life {
  readonly minutes: readonly Minute[];
  readonly reactions: readonly Exclude<Reaction, readonly unknown[]>[];
  readonly changes: readonly ('change' | 'retry' | 'rejected')[];
  /** Awaits until it dies. */
  readonly awaits: number;
}

const minutes: fc.Arbitrary<Minute> = fc.record(
  {
    wish: fc.record({
      tenant: fc.constantFrom(...TENANTS),
      plan: fc.constantFrom('a', 'b', 'c'),
      mode: fc.constantFrom<PlanChange>('now', 'now', 'period-end'),
    }),
    late: fc.record({
      tenant: fc.constantFrom(...TENANTS),
      minutesAgo: fc.integer({ min: 1, max: 90 }),
    }),
    pause: fc.constantFrom(0, 0, 0, 0, 1, 5, 40, 400, 2_000),
  },
  { requiredKeys: ['pause'] },
);

const lives: fc.Arbitrary<readonly Life[]> = fc.array(
  fc.record({
    minutes: fc.array(minutes, { minLength: 1, maxLength: 12 }),
    reactions: fc.array(
      fc.constantFrom('accept', 'accept', 'accept', 'lost', 'reset', 'unavailable', 'limited'),
      { minLength: 1, maxLength: 6 },
    ),
    changes: fc.array(fc.constantFrom('change', 'change', 'retry', 'rejected'), {
      minLength: 1,
      maxLength: 4,
    }),
    awaits: fc.integer({ min: 1, max: 600 }),
  }),
  { minLength: 1, maxLength: 5 },
);

interface World {
  readonly clock: VirtualClock;
  readonly ledger: Ledger;
  readonly plans: PlanWorld;
  readonly wishes: Map<string, { readonly plan: string; readonly planChange: PlanChange }>;
  /** By id, with what tells whether it came in time. */
  readonly events: Map<string, { readonly event: UsageEvent; readonly isLate: boolean }>;
}

function createWorld(fullHours: boolean, graceMs: number | undefined): World {
  const clock = createVirtualClock();
  const plans = createPlanWorld({
    now: () => clock.now(),
    limits: { batchEvents: 4, idMemoryMs: DAY_MS },
    verifies: true,
    fullHours,
    ...(graceMs !== undefined && { graceMs }),
  });
  plans.periodEndOf = (now) => (Math.floor(now / (2 * HOUR_MS)) + 1) * 2 * HOUR_MS;
  const wishes = new Map(TENANTS.map((id) => [id, { plan: 'a', planChange: 'now' as const }]));
  return { clock, plans, wishes, ledger: createMemoryLedger(), events: new Map() };
}

function applyWishes({ wishes }: World, harness: Harness): void {
  for (const [id, wish] of wishes) harness.tenants.set(tenantNamed(id, { ...wish, createdAt: 0 }));
}

async function liveMinute(world: World, harness: Harness, minute: Minute): Promise<void> {
  const { clock, events, ledger, wishes } = world;
  if (minute.wish !== undefined) {
    const { tenant, plan, mode } = minute.wish;
    wishes.set(tenant, { plan, planChange: mode });
    applyWishes(world, harness);
    await clock.settle();
  }
  const start = Math.floor(clock.now() / TEST_WINDOW_MS) * TEST_WINDOW_MS;
  const end = start + TEST_WINDOW_MS;
  await clock.pass(end - clock.now());
  const added = TENANTS.map((tenant) =>
    testEvent({ tenant, id: `${tenant}-${start}`, windowStart: start }),
  );
  for (const event of added) events.set(event.id, { event, isLate: false });
  if (minute.late !== undefined) {
    const { tenant, minutesAgo } = minute.late;
    const windowStart = start - minutesAgo * TEST_WINDOW_MS;
    const event = testEvent({ tenant, id: `late-${tenant}-${windowStart}`, windowStart });
    if (!events.has(event.id)) added.push(event);
    events.set(event.id, { event, isLate: true });
  }
  await ledger.append({ events: added, windowEnd: end });
  await clock.settle();
  await clock.pass(minute.pause * TEST_WINDOW_MS);
}

async function live(world: World, life: Life, process: MortalProcess): Promise<void> {
  const { clock, plans } = world;
  let sends = 0;
  let changes = 0;
  plans.destination.react = () => life.reactions[sends++ % life.reactions.length] ?? 'accept';
  plans.reactToChange = () => life.changes[changes++ % life.changes.length] ?? 'change';
  const harness = createHarness({
    clock,
    ledger: process.ledger(world.ledger),
    destination: process.destination(plans.destination),
  });
  applyWishes(world, harness);
  void harness.start();
  await clock.settle();
  for (const minute of life.minutes) await liveMinute(world, harness, minute);
  process.kill();
  await clock.settle();
}

/** Everything goes well from now on, until nothing waits any more. */
async function settle(world: World): Promise<void> {
  const { clock, ledger, plans } = world;
  plans.destination.react = () => 'accept';
  plans.reactToChange = () => 'change';
  const harness = createHarness({ clock, ledger, destination: plans.destination });
  applyWishes(world, harness);
  await harness.start();
  for (let hour = 0; hour < 8; hour += 1) {
    await liveMinute(world, harness, { pause: 59 });
  }
  expect(harness.delivery.status('fake')).toMatchObject({
    parked: 0,
    lagEvents: 0,
    deadLetters: 0,
    planChanges: [],
  });
  await harness.stop();
}

/** Every event is billed once, by a plan, and that of its side. */
async function expectRightSides({ ledger, plans, events }: World): Promise<void> {
  const billed = new Map(plans.billed().map((one) => [one.id, one]));
  expect([...events.keys()].filter((id) => billed.get(id)?.plan === undefined)).toStrictEqual([]);
  expect(plans.destination.billedTwice).toStrictEqual([]);
  const wrong: string[] = [];
  for await (const { tenant, made } of createDeliveryRecords(ledger, 'fake').changes()) {
    const asked = new Set(
      plans.changes.filter((one) => one.tenant === tenant).map(({ before }) => before),
    );
    expect(asked).toStrictEqual(new Set(made.map(({ before }) => before)));
    for (const { before, from } of made) {
      for (const [id, { event, isLate }] of events) {
        if (event.tenant !== tenant || isLate) continue;
        const isNew = Date.parse(event.window_start) >= before;
        const at = billed.get(id)?.at ?? 0;
        if (isNew ? at < from - 1_000 : at >= Math.max(before, from))
          wrong.push(`${id} at ${before}`);
      }
    }
  }
  expect(wrong).toStrictEqual([]);
}

test.each([
  ['at the moment of the call', false, undefined],
  ['at the moment of the call, with a grace', false, 3 * HOUR_MS],
  ['at full hours', true, undefined],
])(
  'plans that begin %s: a process that dies at any await leaves every event on its side',
  async (_, fullHours, graceMs) => {
    await fc.assert(
      fc.asyncProperty(lives, async (planned) => {
        const world = createWorld(fullHours, graceMs);
        for (const life of planned) await live(world, life, createMortalProcess(life.awaits));
        await settle(world);
        await expectRightSides(world);
      }),
      { numRuns: 100 },
    );
  },
  300_000,
);
