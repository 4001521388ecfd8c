import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_MS, testEvent } from '../ledger/testing/events.ts';
import { decimalFromNanos, nanosFromDecimal } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import type { PlanChange } from '../model/tenant.ts';
import { createDeliveryRecords } from './records/delivery-records.ts';
import { createMortalProcess, type MortalProcess } from './testing/crash.ts';
import type { Reaction } from './testing/fake-destination.ts';
import { createHarness, type Harness, tenantNamed } from './testing/harness.ts';
import { type Billed, createPlanWorld, type PlanWorld } from './testing/plan-destination.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Billing periods are two hours, and end in the middle of one. */
const PERIOD_MS = 2 * HOUR_MS;
const PERIOD_OFFSET_MS = 20 * 60_000;
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

const TROUBLE = ['accept', 'accept', 'accept', 'lost', 'reset', 'unavailable', 'limited'] as const;

const lives: fc.Arbitrary<readonly Life[]> = fc.array(
  fc.record({
    minutes: fc.array(minutes, { minLength: 1, maxLength: 12 }),
    reactions: fc.array(fc.constantFrom(...TROUBLE, 'refuse'), { minLength: 1, maxLength: 6 }),
    changes: fc.array(fc.constantFrom('change', 'change', 'retry', 'rejected'), {
      minLength: 1,
      maxLength: 4,
    }),
    awaits: fc.integer({ min: 1, max: 600 }),
  }),
  { minLength: 1, maxLength: 5 },
);

interface Rules {
  readonly fullHours: boolean;
  readonly graceMs?: number;
}

/** An event of a tenant: its quantity is a power of two of its own, by which it is found again. */
interface Used {
  readonly event: UsageEvent;
  /** It came after its window, or was refused once: then it may be of the next side. */
  isLate: boolean;
}

interface World {
  readonly clock: VirtualClock;
  readonly ledger: Ledger;
  readonly plans: PlanWorld;
  readonly wishes: Map<string, { readonly plan: string; readonly planChange: PlanChange }>;
  /** By id. */
  readonly events: Map<string, Used>;
}

function createWorld({ fullHours, graceMs }: Rules): World {
  const clock = createVirtualClock();
  const plans = createPlanWorld({
    now: () => clock.now(),
    limits: { batchEvents: 4, idMemoryMs: DAY_MS },
    verifies: true,
    fullHours,
    graceMs,
  });
  plans.periodEndOf = (now) => (periodOf(now) + 1) * PERIOD_MS + PERIOD_OFFSET_MS;
  const wishes = new Map(TENANTS.map((id) => [id, { plan: 'a', planChange: 'now' as const }]));
  const ledger = createMemoryLedger();
  return { clock, plans, wishes, ledger, events: new Map() };
}

function periodOf(at: number): number {
  return Math.floor((at - PERIOD_OFFSET_MS) / PERIOD_MS);
}

function applyWishes({ wishes }: World, harness: Harness): void {
  for (const [id, wish] of wishes) harness.tenants.set(tenantNamed(id, { ...wish, createdAt: 0 }));
}

/** Adds the tenant's event of a window, unless there is one. */
function use(
  { events }: World,
  tenant: string,
  windowStart: number,
  isLate: boolean,
): UsageEvent[] {
  const id = `${tenant}-${windowStart}`;
  if (events.has(id)) return [];
  const own = [...events.values()].filter(({ event }) => event.tenant === tenant).length;
  const quantity = decimalFromNanos(1n << BigInt(own));
  const event = testEvent({ tenant, id, windowStart, quantity });
  events.set(id, { event, isLate });
  return [event];
}

/** The event of a tenant that has a quantity. */
function eventWith({ events }: World, tenant: string, nanos: bigint): Used | undefined {
  return [...events.values()].find(
    ({ event }) => event.tenant === tenant && nanosFromDecimal(event.quantity) === nanos,
  );
}

async function liveMinute(world: World, harness: Harness, minute: Minute): Promise<void> {
  const { clock, ledger, wishes } = world;
  if (minute.wish !== undefined) {
    const { tenant, plan, mode } = minute.wish;
    wishes.set(tenant, { plan, planChange: mode });
    applyWishes(world, harness);
    await clock.settle();
  }
  const start = Math.floor(clock.now() / TEST_WINDOW_MS) * TEST_WINDOW_MS;
  const end = start + TEST_WINDOW_MS;
  await clock.pass(end - clock.now());
  const added = TENANTS.flatMap((tenant) => use(world, tenant, start, false));
  if (minute.late !== undefined) {
    const { tenant, minutesAgo } = minute.late;
    added.push(...use(world, tenant, start - minutesAgo * TEST_WINDOW_MS, true));
  }
  await ledger.append({ events: added, windowEnd: end });
  await clock.settle();
  await clock.pass(minute.pause * TEST_WINDOW_MS);
}

async function live(world: World, life: Life, process: MortalProcess): Promise<void> {
  const { clock, plans } = world;
  let sends = 0;
  let changes = 0;
  plans.destination.react = (events) => {
    const reaction = life.reactions[sends++ % life.reactions.length] ?? 'accept';
    if (reaction !== 'refuse') return reaction;
    // What it has it does not refuse.
    if (events.some(({ id }) => plans.destination.taken.includes(id))) return 'accept';
    for (const { tenant, quantity } of events) {
      const used = eventWith(world, tenant, nanosFromDecimal(quantity));
      if (used !== undefined) used.isLate = true;
    }
    return reaction;
  };
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
  await clock.pass(2 * HOUR_MS);
  const replayed = harness.delivery.replay('fake', undefined);
  await clock.pass(HOUR_MS);
  await replayed;
  expect(harness.delivery.status('fake')).toMatchObject({
    parked: 0,
    lagEvents: 0,
    deadLetters: 0,
    planChanges: [],
  });
  await harness.stop();
}

/** What was billed, by the id of its event. */
function billedEvents(world: World): ReadonlyMap<string, Billed> {
  const found = new Map<string, Billed>();
  for (const one of world.plans.billed()) {
    const id = eventWith(world, one.tenant, one.nanos)?.event.id ?? '';
    expect(world.events.has(id)).toBe(true);
    expect(found.has(id)).toBe(false);
    found.set(id, one);
  }
  return found;
}

/** Every event is billed once, by a plan, and that of its side. */
async function expectRightSides(world: World): Promise<void> {
  const { ledger, plans, events } = world;
  const billed = billedEvents(world);
  expect([...events.keys()].filter((id) => billed.get(id)?.plan === undefined)).toStrictEqual([]);
  expect(plans.destination.billedTwice).toStrictEqual([]);
  const wrong: string[] = [];
  for await (const { tenant, made } of createDeliveryRecords(ledger, 'fake').changes()) {
    const planOf = new Map(
      plans.changes.filter((one) => one.tenant === tenant).map(({ before, to }) => [before, to]),
    );
    expect(new Set(planOf.keys())).toStrictEqual(new Set(made.map(({ before }) => before)));
    for (const [index, { before, from }] of made.entries()) {
      const last = made[index - 1];
      // Given up, asked for again and there already: it divides nothing.
      if (last?.from === from && planOf.get(last.before) === planOf.get(before)) continue;
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
  ['at the moment of the call', { fullHours: false }],
  ['at the moment of the call, with a grace', { fullHours: false, graceMs: 3 * HOUR_MS }],
  ['at full hours', { fullHours: true }],
] satisfies readonly (readonly [string, Rules])[])(
  'plans that begin %s: a process that dies at any await leaves every event on its side',
  async (_, rules) => {
    await fc.assert(
      fc.asyncProperty(lives, async (planned) => {
        const world = createWorld(rules);
        for (const life of planned) await live(world, life, createMortalProcess(life.awaits));
        await settle(world);
        await expectRightSides(world);
      }),
      { numRuns: 100 },
    );
  },
  300_000,
);
