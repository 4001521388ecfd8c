import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Destination } from '../../destinations/destination.ts';
import { override } from '../../model/override.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createMortalProcess } from '../testing/crash.ts';
import { createFakeDestination, type Reaction } from '../testing/fake-destination.ts';
import { createHarness, tenantNamed } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const TENANTS = ['a', 'b', 'c'];

/** One run of the process, from its start to its sudden end. */
const lives = fc.array(
  fc.record({
    /** Windows of each tenant, in minutes before now; some come late. */
    windows: fc.array(
      fc.record({ tenant: fc.constantFrom(...TENANTS), minutesAgo: fc.nat({ max: 240 }) }),
      { maxLength: 14 },
    ),
    reactions: fc.array(
      fc.constantFrom('accept', 'accept', 'accept', 'lost', 'reset', 'unavailable', 'refuse'),
      { minLength: 1, maxLength: 6 },
    ),
    refused: fc.subarray(TENANTS, { maxLength: 1 }),
    offboards: fc.subarray(TENANTS, { maxLength: 1 }),
    aggregate: fc.constantFrom('1h', '1h', '1h', 'none'),
    replays: fc.boolean(),
    rewinds: fc.boolean(),
    cut: fc.constantFrom(0, 0, 17, 31),
    awaits: fc.integer({ min: 1, max: 120 }),
    pauseMinutes: fc.constantFrom(0, 7, 61, 130),
  }),
  { minLength: 1, maxLength: 6 },
);

function nanosOf(events: Iterable<UsageEvent>, tenant: string): bigint {
  let sum = 0n;
  for (const event of events) if (event.tenant === tenant) sum += nanosFromDecimal(event.quantity);
  return sum;
}

test('a process that dies at any await while hours are added up bills each event exactly once in sum', async () => {
  await fc.assert(
    fc.asyncProperty(lives, async (planned) => {
      const clock = createVirtualClock();
      const ledger = createMemoryLedger();
      const inner = createFakeDestination({
        limits: { batchEvents: 3 },
        now: () => clock.now(),
      });
      /** What the billing system has, by id: the first one counts. */
      const billed = new Map<string, UsageEvent>();
      let cut = 0;
      const destination = override<Destination, typeof inner>(inner, {
        boundaries: async (_, { from, to }) => {
          const first = Math.floor(from / HOUR_MS) * HOUR_MS + cut * MINUTE_MS;
          const hours = Math.ceil((to - first) / HOUR_MS);
          const at = Array.from({ length: hours }, (__, hour) => first + hour * HOUR_MS);
          return { kind: 'boundaries', at: cut === 0 ? [] : at.filter((one) => one < to) };
        },
        send: async (events, signal) => {
          const before = new Set(inner.taken);
          const outcomes = await inner.send(events, signal);
          const taken = new Set(inner.taken);
          for (const event of events) {
            if (taken.has(event.id) && !before.has(event.id)) billed.set(event.id, event);
          }
          return outcomes;
        },
      });
      const stored: UsageEvent[] = [];
      const append = async (windows: (typeof planned)[number]['windows']): Promise<void> => {
        const added = windows.map(({ tenant, minutesAgo }, index) => {
          const minute = Math.floor(clock.now() / MINUTE_MS) - minutesAgo;
          const windowStart = Math.max(TEST_WINDOW_START - 5 * HOUR_MS, minute * MINUTE_MS);
          const number = stored.length + index;
          const quantity = String(2 ** (number % 40));
          return testEvent({ id: `${tenant}-${number}`, tenant, windowStart, quantity });
        });
        stored.push(...added);
        await ledger.append({ events: added });
      };

      for (const life of planned) {
        cut = life.cut;
        await append(life.windows);
        const process = createMortalProcess(life.awaits);
        let calls = 0;
        inner.react = () => {
          const reaction: Reaction = life.reactions[calls++ % life.reactions.length] ?? 'accept';
          return reaction;
        };
        inner.reactToTenant = ({ id }) =>
          life.refused.includes(id) ? { kind: 'rejected', reason: 'no plan' } : { kind: 'done' };
        const harness = createHarness({
          clock,
          ledger: process.ledger(ledger),
          destination: process.destination(destination),
        });
        void harness.start({ aggregate: life.aggregate });
        await clock.settle();
        for (const tenant of life.offboards) {
          void harness.delivery.offboard(tenantNamed(tenant));
        }
        if (life.replays && !process.dead) void harness.delivery.replay('fake', undefined);
        if (life.rewinds && !process.dead) {
          const cursor = ledger.cursors()[0]?.sequence ?? 0;
          void harness.delivery.moveCursor('fake', Math.min(cursor, Math.floor(ledger.head() / 2)));
        }
        await clock.pass(life.pauseMinutes * MINUTE_MS + 5_000);
        process.kill();
        await clock.settle();
      }

      cut = 0;
      inner.react = () => 'accept';
      inner.reactToTenant = () => ({ kind: 'done' });
      const harness = createHarness({ clock, ledger, destination });
      await harness.start({ aggregate: '1h' });
      await clock.pass(3 * HOUR_MS);
      await harness.drained();
      await clock.until(() => harness.delivery.status('fake')?.parked === 0);
      const replayed = harness.delivery.replay('fake', undefined);
      await clock.pass(MINUTE_MS);
      await replayed;
      await clock.until(() => harness.delivery.status('fake')?.deadLetters === 0);
      await harness.stop();
      for (const tenant of TENANTS) {
        expect([tenant, nanosOf(billed.values(), tenant)]).toStrictEqual([
          tenant,
          nanosOf(stored, tenant),
        ]);
      }
    }),
    { numRuns: 120 },
  );
});
