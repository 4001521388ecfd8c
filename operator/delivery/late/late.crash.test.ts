import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Destination } from '../../destinations/destination.ts';
import type { LateLine } from '../../destinations/late.ts';
import { override } from '../../model/override.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import {
  type Decimal,
  decimalFromNanos,
  nanosFromDecimal,
  parseSigned,
} from '../../model/decimal.ts';
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
  /** What was taken as usage, by id: the first one counts. */
  const sent = new Map<string, UsageEvent>();
  const destination = override<Destination, FakeDestination>(usage, {
    send: async (events, signal) => {
      const outcomes = await usage.send(events, signal);
      for (const event of events) {
        if (usage.taken.includes(event.id) && !sent.has(event.id)) sent.set(event.id, event);
      }
      return outcomes;
    },
    invoices: {
      closedPeriods: 'it is on no invoice',
      list: async ({ tenant }) => ({
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
    },
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
    sent,
    destination,
    answer: (next: Life['answers']) => {
      answers = next;
    },
  };
}

/**
 * A multiple of an event's own, a power of two: two sums are equal only where they are of the same
 * events.
 */
function quantityOf(number: number): Decimal {
  return decimalFromNanos((1n << BigInt(number)) * 1_000_000_001n);
}

function sumOf(quantities: Iterable<Decimal>): string {
  let nanos = 0n;
  for (const quantity of quantities) nanos += nanosFromDecimal(quantity);
  return (nanos / 1_000_000_001n).toString(2);
}

function decimalOf(text: unknown): Decimal {
  const quantity = parseSigned(String(text));
  if (quantity === undefined) throw new RangeError(`quantity: "${String(text)}"`);
  return quantity;
}

async function expectBilledOnce(script: readonly Life[]): Promise<void> {
  const { clock, lines, changed, sent, destination, answer } = createBiller();
  const ledger = createMemoryLedger();
  const settings = { late: 'next' } as const;
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
        quantity: quantityOf(number),
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
    await harness.start(settings);
    if (life?.replays === true) void harness.delivery.replay('fake', undefined);
    await clock.pass(HOUR_MS / 2);
    await clock.pass(3 * HOUR_MS);
    process.kill();
  };
  // What is final is seen before anything is late.
  await append(0, false);
  events.push(
    ...['a', 'b'].map((tenant, number) => ({
      ...testEvent({ id: `seed-${tenant}`, tenant, windowStart: FINAL_UNTIL }),
      quantity: quantityOf(number),
    })),
  );
  await ledger.append({ events });
  const first = createHarness({ clock, ledger, destination });
  await first.start(settings);
  await first.drained();
  for (let poll = 0; poll < 2; poll += 1) {
    const failed = await first.delivery.checkInvoices('fake', 10, new AbortController().signal);
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
  const inTime = events.filter(({ id }) => !id.startsWith('late-'));
  const quantities = (of: Iterable<UsageEvent>) => [...of].map(({ quantity }) => quantity);
  for (const tenant of ['a', 'b']) {
    const isOwn = (event: UsageEvent): boolean => event.tenant === tenant;
    const own = sumOf(quantities(inTime.filter(isOwn)));
    expect(sumOf(quantities([...sent.values()].filter(isOwn)))).toBe(own);
  }
  const isAsUsed = (id: string, quantity: unknown): boolean =>
    events.find((event) => event.id === id)?.quantity === quantity;
  expect([...sent.values()].filter(({ id, quantity }) => !isAsUsed(id, quantity))).toStrictEqual(
    [],
  );
  const billed = [...lines.values()].map(({ quantity }) => decimalOf(quantity));
  expect(sumOf(billed)).toBe(sumOf(quantities(late)));
  const notes: string[] = [];
  const noted: Decimal[] = [];
  const { signal } = new AbortController();
  const stored = new Map<number, UsageEvent>();
  for await (const { sequence, event } of ledger.scan(0, Number.MAX_SAFE_INTEGER, signal)) {
    stored.set(sequence, event);
    if (!event.id.startsWith('cor1_late_')) continue;
    const { corrects, corrects_sequence, line, billed: quantity } = event.properties ?? {};
    // The event can be looked up in the ledger.
    expect(stored.get(Number(corrects_sequence))?.quantity).toBe(quantity);
    expect(lines.has(String(line).replace('line of ', ''))).toBe(true);
    expect(isAsUsed(String(corrects), quantity)).toBe(true);
    notes.push(String(corrects));
    noted.push(decimalOf(quantity));
  }
  expect(sumOf(noted)).toBe(sumOf(quantities(late)));
  expect(new Set(notes).size).toBe(notes.length);
}

test('whatever kills it, late usage is billed once, and noted for each event', async () => {
  await fc.assert(fc.asyncProperty(lives, expectBilledOnce), { numRuns: 60 });
}, 120_000);
