import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import type { UsageEvent } from '../model/event.ts';
import { createMortalProcess, type MortalProcess } from './testing/crash.ts';
import {
  createFakeDestination,
  type FakeDestination,
  type Reaction,
} from './testing/fake-destination.ts';
import { createHarness } from './testing/harness.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const TENANTS = ['a', 'b', 'c', 'd'];
const UNWANTED = 'tenant_gpu_downtime_hours';

/** One run of the process, from its start to its sudden end. */
interface Life {
  readonly newEvents: readonly {
    readonly tenant: string;
    readonly kind: 'good' | 'bad' | 'unwanted';
  }[];
  readonly reactions: readonly Exclude<Reaction, readonly unknown[]>[];
  /** Tenants that cannot be provisioned. */
  readonly refused: readonly string[];
  /** Awaits until it dies. */
  readonly awaits: number;
  /** Hours until the next life. */
  readonly pauseHours: number;
  readonly replays: boolean;
}

const lives: fc.Arbitrary<readonly Life[]> = fc.array(
  fc.record({
    newEvents: fc.array(
      fc.record({
        tenant: fc.constantFrom(...TENANTS),
        kind: fc.constantFrom('good', 'good', 'good', 'bad', 'unwanted'),
      }),
      { maxLength: 12 },
    ),
    reactions: fc.array(
      fc.constantFrom('accept', 'accept', 'accept', 'lost', 'reset', 'unavailable', 'limited'),
      { minLength: 1, maxLength: 6 },
    ),
    refused: fc.subarray(TENANTS, { maxLength: 2 }),
    awaits: fc.integer({ min: 1, max: 120 }),
    pauseHours: fc.constantFrom(0, 0, 1, 30, 100),
    replays: fc.boolean(),
  }),
  { minLength: 1, maxLength: 6 },
);

interface World {
  readonly clock: VirtualClock;
  readonly ledger: Ledger;
  readonly destination: FakeDestination;
  readonly events: UsageEvent[];
}

function createWorld(): World {
  const clock = createVirtualClock();
  const destination = createFakeDestination({
    limits: { batchEvents: 4, idMemoryMs: 24 * HOUR_MS },
    verifies: true,
    now: () => clock.now(),
    accepts: ({ code }) => code !== UNWANTED,
  });
  return { clock, destination, ledger: createMemoryLedger(), events: [] };
}

async function appendNew({ ledger, events }: World, { newEvents }: Life): Promise<void> {
  const added = newEvents.map(({ tenant, kind }, index): UsageEvent => {
    const number = events.length + index;
    const id = `${kind}-${tenant}-${number}`;
    const event = testEvent({ id, tenant, windowStart: TEST_WINDOW_START + number * 60_000 });
    return kind === 'unwanted' ? { ...event, metric: UNWANTED } : event;
  });
  events.push(...added);
  await ledger.append({ events: added });
}

/** Sequence numbers of the events that are set aside. */
async function setAside(ledger: Ledger): Promise<Set<number>> {
  const found = new Set<number>();
  for await (const [key] of ledger.records('delivery/fake/')) {
    if (/\/(dead|replay|parked\/[^/]+)\/\d+$/.test(key)) found.add(Number(key.split('/').at(-1)));
  }
  return found;
}

/**
 * The cursor passes an event only when it is delivered, unwanted, or set aside
 * (docs/reference/ledger-format.md#promises, P5).
 */
async function expectNothingSkipped({ ledger, destination, events }: World): Promise<void> {
  const cursor = ledger.cursors()[0]?.sequence ?? 0;
  const aside = await setAside(ledger);
  const taken = new Set(destination.taken);
  const lost = events.filter(
    ({ id, metric }, index) =>
      index < cursor && metric !== UNWANTED && !taken.has(id) && !aside.has(index + 1),
  );
  expect(lost.map(({ id }) => id)).toStrictEqual([]);
}

async function live(world: World, life: Life, process: MortalProcess): Promise<void> {
  const { clock, destination } = world;
  let calls = 0;
  destination.react = (events) => {
    const reaction = life.reactions[calls++ % life.reactions.length] ?? 'accept';
    if (!events.some(({ id }) => id.startsWith('bad-'))) return reaction;
    // It may have been taken by an attempt whose answer was lost, and is refused after that.
    return reaction === 'accept' ? 'refuse' : reaction === 'lost' ? 'lost' : 'reset';
  };
  destination.reactToTenant = ({ id }) =>
    life.refused.includes(id) ? { kind: 'rejected', reason: 'no plan' } : { kind: 'done' };
  const harness = createHarness({
    clock,
    ledger: process.ledger(world.ledger),
    destination: process.destination(destination),
  });
  void harness.start();
  await clock.settle();
  if (life.replays && !process.dead) void harness.delivery.replay('fake', undefined);
  await clock.until(() => {
    const cursor = world.ledger.cursors()[0]?.sequence;
    return process.dead || cursor === world.ledger.head();
  });
  process.kill();
  await clock.settle();
}

test('a process that dies at any await, again and again, loses nothing and bills nothing twice', async () => {
  await fc.assert(
    fc.asyncProperty(lives, async (planned) => {
      const world = createWorld();
      for (const life of planned) {
        await appendNew(world, life);
        await live(world, life, createMortalProcess(life.awaits));
        await expectNothingSkipped(world);
        await world.clock.pass(life.pauseHours * HOUR_MS);
      }
      const { clock, ledger, destination, events } = world;
      destination.reactToTenant = () => ({ kind: 'done' });
      const harness = createHarness({ clock, ledger, destination });
      destination.react = (batch) =>
        batch.some(({ id }) => id.startsWith('bad-')) ? 'refuse' : 'accept';
      await harness.start();
      await harness.drained();
      await clock.until(() => harness.delivery.status('fake')?.parked === 0);
      await expectNothingSkipped(world);
      await harness.stop();

      const good = events.filter(({ id }) => id.startsWith('good-')).map(({ id }) => id);
      expect(
        [...destination.taken].filter((id) => id.startsWith('good-')).toSorted(),
      ).toStrictEqual(good.toSorted());
      expect(destination.billedTwice).toStrictEqual([]);
      for (const tenant of TENANTS) {
        const mine = (ids: readonly string[]): string[] =>
          ids.filter((id) => id.startsWith(`good-${tenant}-`));
        expect(mine(destination.taken)).toStrictEqual(mine(good));
      }
      const aside = await setAside(ledger);
      const deadIds = [...aside].map((sequence) => events[sequence - 1]?.id ?? '?');
      expect(deadIds.filter((id) => !id.startsWith('bad-'))).toStrictEqual([]);

      // Mended after so long that ids are forgotten: what was taken without an answer is not billed
      // again.
      await clock.pass(2 * DAY_MS);
      destination.react = () => 'accept';
      const fixed = createHarness({ clock, ledger, destination });
      await fixed.start();
      await fixed.delivery.replay('fake', undefined);
      await clock.until(() => fixed.delivery.status('fake')?.deadLetters === 0);
      expect(destination.billedTwice).toStrictEqual([]);
      await fixed.stop();
    }),
    { numRuns: 150 },
  );
});
