import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { Explanations } from './explanations.ts';
import { type ClosedWithEvents, closing, CORE, podsOf, uidOf } from './testing/closings.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Eight hours after the beginning of a day. */
const START = Date.UTC(2026, 2, 1, 8);
/**
 * Explanations over a ledger, which may have been open before. They close windows like the
 * operator.
 */
async function open(
  ledger: Ledger = createMemoryLedger(),
  clock: Pick<Clock, 'monotonic'> = systemClock,
) {
  const logger = createCapturingLogger();
  const older = { find: async () => undefined };
  const explanations = new Explanations(ledger, older, clock, logger);
  return {
    ledger,
    logger,
    find: (event: UsageEvent) => explanations.find(event),
    async write(closed: ClosedWithEvents): Promise<void> {
      const records = await explanations.recordsFor(closed);
      const outcome = await ledger.append({ events: closed.events, records });
      expect(outcome.kind).toBe('appended');
    },
  };
}

/** A ledger with this much space for the evidence of a day. */
function withDayBytes(bytes: number): Ledger {
  const ledger = createMemoryLedger();
  const [roomBytes, retentionMs] = [bytes * 3 * 7, 7 * DAY];
  return { ...ledger, stats: () => ({ ...ledger.stats(), roomBytes, retentionMs }) };
}

type Finder = Pick<Explanations, 'find'>;

/** The error in an event's explanation; undefined if there is none. */
async function faultOf(explanations: Finder, event: UsageEvent): Promise<string | undefined> {
  const found = await explanations.find(event);
  if (found.kind === 'gone') return found.reason;
  const { shares, remainder: rest, givenBack, addsUp, subjects } = found.explanation;
  const sum = shares.reduce((all, share) => all + share[6], rest.quantity + givenBack);
  if (!addsUp) return `does not add up: ${sum}, not ${event.quantity}`;
  if (shares.some(([subject]) => subjects[subject] === undefined)) return 'says nothing of a pod';
  const rounding = (shares.length + 2) * 0.6e-9;
  return Math.abs(sum - Number(event.quantity)) <= rounding ? undefined : `${sum}`;
}

async function expectExplained(explanations: Finder, ...closed: ClosedWithEvents[]): Promise<void> {
  for (const event of closed.flatMap(({ events }) => events)) {
    expect(await faultOf(explanations, event), `${event.metric} ${event.window_end}`).toBe(
      undefined,
    );
  }
}

function eventOf({ events }: ClosedWithEvents, tenant?: string): UsageEvent {
  const event = events.find((one) => tenant === undefined || one.tenant === tenant);
  if (event === undefined) throw new Error('no such event');
  return event;
}

async function evidenceIn(ledger: Ledger): Promise<readonly (readonly [string, string])[]> {
  return Array.fromAsync(ledger.records('evidence/'));
}

async function bytesIn(ledger: Ledger): Promise<number> {
  const records = await evidenceIn(ledger);
  return records.reduce((sum, [key, value]) => sum + key.length + value.length, 0);
}

describe('explanations', () => {
  test('are found again after a restart, of every tenant by itself', async () => {
    const tenants = ['a', '__proto__', 'ü" '];
    const closed = closing(
      START,
      tenants.flatMap((tenant) => podsOf(tenant, 2)),
    );
    const explanations = await open();
    await explanations.write(closed);
    const restarted = await open(explanations.ledger);
    await expectExplained(restarted, closed);
    for (const tenant of tenants) {
      const found = await restarted.find(eventOf(closed, tenant));
      const names = found.kind === 'found' && found.explanation.shares.map(([, , name]) => name);
      expect(names).toEqual(podsOf(tenant, 2).map(({ name }) => name));
    }
  });

  test('of many tenants are each found, though the small ones are compressed sooner than the large', async () => {
    const tenants = Array.from({ length: 24 }, (_, index) => `tenant-${index}`);
    const sizeOf = (index: number): number => (index % 5 === 0 ? 400 : 1 + (index % 3));
    const closed = closing(
      START,
      tenants.flatMap((tenant, index) => podsOf(tenant, sizeOf(index))),
    );
    const explanations = await open();
    await explanations.write(closed);
    await expectExplained(explanations, closed);
    for (const [index, tenant] of tenants.entries()) {
      const found = await explanations.find(eventOf(closed, tenant));
      const names = found.kind === 'found' && found.explanation.shares.map(([, , name]) => name);
      expect(names).toEqual(podsOf(tenant, sizeOf(index)).map(({ name }) => name));
    }
  });

  test('of many tenants of which nothing is new keep the process from everything else', async () => {
    let now = 0;
    let others = 0;
    const reads: number[] = [];
    // Every call adds ten milliseconds.
    const monotonic = (): number => {
      reads.push(others);
      return (now += 10);
    };
    const explanations = await open(createMemoryLedger(), { monotonic });
    const pods = Array.from({ length: 90 }, (_, index) => podsOf(`tenant-${index}`, 1)).flat();
    await explanations.write(closing(START, pods));
    const closed = closing(START + MINUTE, pods);
    reads.length = 0;
    const stop = new AbortController();
    const count = (): void => {
      others += 1;
      if (!stop.signal.aborted) setImmediate(count);
    };
    setImmediate(count);
    await explanations.write(closed);
    stop.abort();
    // One call for each tenant, with other work in between.
    expect(reads.length).toBeGreaterThan(90);
    expect(new Set(reads).size).toBeGreaterThan(20);
    await expectExplained(explanations, closed);
  });

  test('of one window that was closed in parts are all stored, in one millisecond too', async () => {
    const explanations = await open();
    const parts = ['a', 'b', 'c'].map((tenant, index) =>
      closing(START, podsOf(tenant, 1), MINUTE, index === 0 ? 3_000 : 60_000),
    );
    for (const part of parts) await explanations.write(part);
    await expectExplained(explanations, ...parts);
  });

  test('are exact whatever comes, changes, goes and is sampled, through restarts', async () => {
    const anyLife = fc.record({
      tenant: fc.constantFrom('a', 'b'),
      name: fc.integer({ min: 0, max: 30 }).map((number) => `p${number}`),
      from: fc.integer({ min: 0, max: 9 * MINUTE }).map((after) => START + after),
      ms: fc.integer({ min: 1, max: 20 * MINUTE }),
      rate: fc.oneof(
        fc.bigInt({ min: 0n, max: 64n * CORE }),
        fc
          .array(fc.bigInt({ min: 0n, max: 8n * CORE }), { minLength: 2, maxLength: 4 })
          .map((used) => (start: number) => used.map((one) => one + BigInt(start % 7_919))),
      ),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(anyLife, { maxLength: 25, selector: ({ name }) => name }),
        fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
        async (drawn, restarts) => {
          const lives = drawn.map(({ ms, ...life }) => ({ ...life, to: life.from + ms }));
          const closed: ClosedWithEvents[] = [];
          let explanations = await open();
          for (const [number, restart] of restarts.entries()) {
            if (restart) explanations = await open(explanations.ledger);
            const one = closing(START + number * MINUTE, lives);
            closed.push(one);
            await explanations.write(one);
          }
          await expectExplained(explanations, ...closed);
        },
      ),
      { numRuns: 12 },
    );
  });

  test('of a tenant whose objects come and go all the time are cut short, and nobody else’s', async () => {
    const dayBytes = 60_000;
    const explanations = await open(withDayBytes(dayBytes));
    const quiet = podsOf('quiet', 5);
    const closed: ClosedWithEvents[] = [];
    for (let number = 0; number < 40; number += 1) {
      const start = START + number * MINUTE;
      const churn = podsOf('hostile', 300).map((life) => ({
        ...life,
        name: `${number}${life.name}`,
      }));
      const one = closing(start, [...churn, ...quiet]);
      closed.push(one);
      await explanations.write(one);
    }
    for (const one of closed) {
      expect(await faultOf(explanations, eventOf(one, 'quiet'))).toBe(undefined);
    }
    expect(await bytesIn(explanations.ledger)).toBeLessThan(dayBytes);
    const last = closed.at(-1);
    const found = last && (await explanations.find(eventOf(last, 'hostile')));
    expect(found).toMatchObject({
      kind: 'gone',
      reason: expect.stringContaining('so many changes that day'),
    });
    // The next day starts with nothing spent.
    const tomorrow = closing(START + DAY, [...podsOf('hostile', 3), ...quiet]);
    await explanations.write(tomorrow);
    await expectExplained(explanations, tomorrow);
  });

  test('of two days are all there: an hour lists an object once, and a window in which nothing changed has no record', async () => {
    const explanations = await open();
    const windows = Array.from({ length: 48 * 6 }, (_, number) => START + number * 10 * MINUTE);
    const [always, later] = [podsOf('a', 1), podsOf('a', 2, START + DAY, START + DAY + 90)];
    const lives = [...always, ...later.slice(1)];
    const closed = windows.map((start) => closing(start, lives, 10 * MINUTE));
    for (const one of closed) await explanations.write(one);
    await expectExplained(await open(explanations.ledger), ...closed);
    const [oldest] = closed;
    const found = oldest === undefined ? undefined : await explanations.find(eventOf(oldest));
    expect(found).toMatchObject({
      explanation: {
        measured: 0.166666667,
        shares: [
          [0, uidOf(always[0]?.name ?? ''), always[0]?.name, 0, 0, 10 * MINUTE, 0.166666667, 0],
        ],
        subjects: [{ kind: 'Pod', requests: { cpu: 1, memoryGib: 1 } }],
      },
    });
    // One for each of the 49 hours that the windows touch, and one for the short-lived pod.
    expect((await evidenceIn(explanations.ledger)).length).toBeLessThanOrEqual(51);
  });

  test('are never more in a day than all tenants together may store', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 2_000, max: 20_000 }),
        async (sizes, dayBytes) => {
          const explanations = await open(withDayBytes(dayBytes));
          for (const [number, size] of sizes.entries()) {
            const tenants = Array.from({ length: size }, (_, index) => `t${index}`);
            const lives = tenants.flatMap((tenant) => podsOf(tenant, 1));
            await explanations.write(closing(START + number * HOUR, lives));
            const stored = await evidenceIn(explanations.ledger);
            const bytes = stored
              .filter(([, value]) => value !== '')
              .reduce((sum, [key, value]) => sum + key.length + value.length, 0);
            expect(bytes).toBeLessThanOrEqual(dayBytes);
          }
        },
      ),
      { numRuns: 12 },
    );
  });

  test('of several hours that are closed by turns stay separate: a late part of an old window changes nothing of the others', async () => {
    const explanations = await open();
    const closed: ClosedWithEvents[] = [];
    for (let number = 0; number < 20; number += 1) {
      const [now, before] = [START + 2 * HOUR + number * MINUTE, START + number * MINUTE];
      const late = now + MINUTE + 4_000 - (before + MINUTE);
      closed.push(closing(now, podsOf('a', 3)), closing(before, podsOf('a', 2), MINUTE, late));
    }
    for (const one of closed) await explanations.write(one);
    await expectExplained(explanations, ...closed);
    // Each hour lists its pods once.
    expect((await evidenceIn(explanations.ledger)).length).toBeLessThanOrEqual(4);
  });

  test('are right after the clock was set back', async () => {
    const explanations = await open();
    const closed = [9, 0, 1, 2].map((minute, number) =>
      closing(START + minute * MINUTE, podsOf('a', 2 + number)),
    );
    for (const one of closed) await explanations.write(one);
    await expectExplained(explanations, ...closed.slice(1));
  });

  test('that are damaged are gone, and cost nothing else', async () => {
    const explanations = await open();
    const { ledger } = explanations;
    const closed = closing(START, [...podsOf('a', 3), ...podsOf('b', 3)]);
    await explanations.write(closed);
    const [[key, value] = ['', '']] = (await evidenceIn(ledger)).filter(([of]) =>
      of.includes('/a/'),
    );
    await ledger.writeRecords([{ key, value: value.slice(8) }]);
    expect(await explanations.find(eventOf(closed, 'a'))).toMatchObject({ kind: 'gone' });
    expect(await faultOf(explanations, eventOf(closed, 'b'))).toBe(undefined);
    expect(explanations.logger.lines).toEqual([]);
  });

  test('that cannot be made hold up no window, are missed once in the log, and go on afterwards', async () => {
    const memory = createMemoryLedger();
    const state = { fails: false };
    const stats: Ledger['stats'] = () => {
      if (state.fails) throw new Error('out of order');
      return memory.stats();
    };
    const explanations = await open({ ...memory, stats });
    await explanations.write(closing(START, podsOf('a', 2)));
    state.fails = true;
    const missed = [1, 2].map((number) =>
      closing(START + number * MINUTE, podsOf('a', 2 + number)),
    );
    for (const one of missed) await explanations.write(one);
    state.fails = false;
    const warnings = explanations.logger.lines.filter((line) => line.includes('explanations'));
    expect(warnings).toHaveLength(1);
    const later = closing(START + 3 * MINUTE, podsOf('a', 5));
    await explanations.write(later);
    await expectExplained(explanations, later);
  });

  test('take less than 100 bytes for a pod and hour, and 16 more for each window where usage is billed', async () => {
    const tenants = Array.from({ length: 10 }, (_, number) => `tenant-vcluster-${number}`);
    const steady = tenants.flatMap((tenant) => podsOf(tenant, 100));
    const figures = { perHour: 0, perWindow: 0, perLife: 0 };
    const explanations = await open();
    for (let number = 0; number < 60; number += 1) {
      await explanations.write(closing(START + number * MINUTE, steady));
    }
    // Each tenant has two hours in these windows.
    figures.perHour = (await bytesIn(explanations.ledger)) / steady.length / 2;
    const sampled = steady.map((life, index) => ({
      ...life,
      rate: (start: number) => [0, 1].map((part) => used(index, start + part)),
    }));
    const ofUsage = await open();
    for (let number = 0; number < 60; number += 1) {
      await ofUsage.write(closing(START + number * MINUTE, sampled));
    }
    figures.perWindow =
      ((await bytesIn(ofUsage.ledger)) / sampled.length - 2 * figures.perHour) / 60;
    const ofChurn = await open();
    const lifetimes = 20;
    for (let number = 0; number < lifetimes; number += 1) {
      const [from, to] = [START + number * MINUTE, START + (number + 1) * MINUTE - 7_000 - number];
      const pods = tenants.flatMap((tenant) => podsOf(tenant, 20, from, to));
      const named = pods.map((life) => ({ ...life, name: `${life.name}-${number}` }));
      await ofChurn.write(closing(from, named));
    }
    figures.perLife = (await bytesIn(ofChurn.ledger)) / (lifetimes * tenants.length * 20);
    expect(figures.perHour).toBeLessThan(100);
    expect(figures.perWindow).toBeLessThan(16);
    expect(figures.perLife).toBeLessThan(100);
  });
});

/** Up to four cores, independent of the pod's previous value and of the next pod's. */
function used(pod: number, at: number): bigint {
  return BigInt(((pod + 1) * 2_654_435_761 + at * 40_503) % 4_000_000_000);
}
