import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Destination } from '../../destinations/destination.ts';
import type { LateLine } from '../../destinations/late.ts';
import { override } from '../../destinations/testing/override.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import { nanosFromDecimal, parseSigned, signedFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { createMortalProcess } from '../testing/crash.ts';
import { createFakeDestination, type FakeDestination } from '../testing/fake-destination.ts';
import { createHarness } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';

const HOUR_MS = 3_600_000;
/** Invoices until here are final: the first windows are late for them. */
const FINAL_UNTIL = TEST_WINDOW_START + 20 * 60_000;

interface Life {
  readonly late: number;
  readonly inTime: number;
  readonly answers: readonly ('taken' | 'lost' | 'down')[];
  readonly awaits: number;
  readonly replays: boolean;
}

const lives: fc.Arbitrary<readonly Life[]> = fc.array(
  fc.record({
    late: fc.integer({ min: 0, max: 9 }),
    inTime: fc.integer({ min: 0, max: 4 }),
    answers: fc.array(fc.constantFrom('taken', 'taken', 'lost', 'down'), { minLength: 1 }),
    awaits: fc.integer({ min: 1, max: 150 }),
    replays: fc.boolean(),
  }),
  { minLength: 1, maxLength: 5 },
);

/** A billing system with final invoices, which finds again what it has made. */
function createBiller() {
  const clock = createVirtualClock();
  const lines = new Map<string, LateLine>();
  /** Lines that were asked for once more, and differently. */
  const changed: string[] = [];
  const usage = createFakeDestination({ limits: { batchEvents: 4 }, now: () => clock.now() });
  let answers: Life['answers'] = ['taken'];
  let calls = 0;
  const destination = override<Destination, FakeDestination>(usage, {
    invoices: async ({ tenant }) => ({
      kind: 'invoices',
      open: [{ from: FINAL_UNTIL }],
      invoices: [
        {
          id: `in-${tenant.id}`,
          finalizedAt: TEST_WINDOW_START,
          until: FINAL_UNTIL,
          lines: [],
        },
      ],
    }),
    late: {
      price: async (tenant, events) =>
        events.map(() => ({
          kind: 'priced',
          price: { key: tenant.id, each: '0.5', currency: 'USD', invoice: 'in' },
        })),
      bill: async (_, line) => {
        const answer = answers[calls++ % answers.length] ?? 'taken';
        if (answer === 'down') return { kind: 'retry', reason: 'status 503' };
        const known = lines.get(line.id);
        if (known !== undefined && !isDeepStrictEqual(known, line)) changed.push(line.id);
        lines.set(line.id, line);
        if (answer === 'lost') return { kind: 'retry', reason: 'timed out' };
        return { kind: 'billed', reference: `line of ${line.id}` };
      },
    },
  });
  return {
    clock,
    lines,
    changed,
    usage,
    destination,
    answer: (next: Life['answers']) => {
      answers = next;
    },
  };
}

test('whatever kills it, late usage is billed once, and noted for each event', async () => {
  await fc.assert(
    fc.asyncProperty(lives, async (script) => {
      const { clock, lines, changed, usage, destination, answer } = createBiller();
      const ledger = createMemoryLedger();
      const events: UsageEvent[] = [];
      const append = async (count: number, isLate: boolean): Promise<void> => {
        const added = Array.from({ length: count }, (_, index) => {
          const number = events.length + index;
          const offset = (isLate ? number % 20 : 20 + number) * 60_000;
          return {
            ...testEvent({
              id: `${isLate ? 'late' : 'due'}-${number}`,
              tenant: number % 2 === 0 ? 'a' : 'b',
              windowStart: TEST_WINDOW_START + offset,
            }),
            quantity: signedFromNanos(1_000_000_001n * BigInt(number + 1)),
          };
        });
        events.push(...added);
        if (added.length > 0) await ledger.append({ events: added });
      };
      const run = async (awaits: number, life?: Life): Promise<void> => {
        const process = createMortalProcess(awaits);
        const harness = createHarness({
          clock,
          ledger: process.ledger(ledger),
          destination: process.destination(destination),
        });
        const settings = { late: 'next' as const };
        await harness.start(settings);
        if (life?.replays === true) void harness.delivery.replay('fake', undefined);
        await clock.pass(HOUR_MS / 2);
        await clock.pass(3 * HOUR_MS);
        process.kill();
      };
      // What is final is seen before anything is late.
      await append(0, false);
      events.push(testEvent({ id: 'seed-a', tenant: 'a', windowStart: FINAL_UNTIL }));
      events.push(testEvent({ id: 'seed-b', tenant: 'b', windowStart: FINAL_UNTIL }));
      await ledger.append({ events });
      const first = createHarness({ clock, ledger, destination });
      await first.start({ late: 'next' });
      await first.drained();
      for (let look = 0; look < 2; look += 1) {
        const failed = await first.delivery.lookAtInvoices(
          'fake',
          10,
          new AbortController().signal,
        );
        expect(failed).toBeUndefined();
        await clock.pass(600_000);
      }
      await first.stop();
      for (const life of script) {
        await append(life.late, true);
        await append(life.inTime, false);
        answer(life.answers);
        await run(life.awaits, life);
      }
      answer(['taken']);
      await run(Number.POSITIVE_INFINITY);

      expect(changed).toStrictEqual([]);
      const late = events.filter(({ id }) => id.startsWith('late-'));
      const sent = events.filter(({ id }) => !id.startsWith('late-'));
      expect(usage.taken.toSorted()).toStrictEqual(sent.map(({ id }) => id).toSorted());
      const billed = [...lines.values()].reduce(
        (sum, { quantity }) => sum + nanosFromDecimal(parseSigned(quantity) ?? signedFromNanos(0n)),
        0n,
      );
      expect(billed).toBe(late.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n));
      const notes: string[] = [];
      const { signal } = new AbortController();
      for await (const { event } of ledger.scan(0, Number.MAX_SAFE_INTEGER, signal)) {
        if (!event.id.startsWith('cor1_late_')) continue;
        const { corrects, line } = event.properties ?? {};
        expect(lines.has(String(line).replace('line of ', ''))).toBe(true);
        notes.push(String(corrects));
      }
      expect(notes.toSorted()).toStrictEqual(late.map(({ id }) => id).toSorted());
    }),
    { numRuns: 60 },
  );
}, 120_000);
