import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { assembleEvents } from '../metering/assemble.ts';
import { settleCredits } from '../metering/credits.ts';
import { addTo, createTally, type Evidence } from '../metering/tally.ts';
import type { UsageEvent } from '../model/event.ts';
import { formatInstant } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { type ClosedWindow, createExplanations, type Explanations } from './explanations.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Eight hours after the beginning of a day. */
const START = Date.UTC(2026, 2, 1, 8);
const CORE = 1_000_000_000n;
/** A GiB for each core. */
const PER_CORE = { tenant_cpu_core_hours: 1n, tenant_memory_gb_hours: 2n ** 30n };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'explanations-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function open(room = 2 ** 30, clock: Pick<Clock, 'monotonic'> = systemClock) {
  const logger = createCapturingLogger();
  const state = { room, oldest: undefined as number | undefined };
  const explanations = createExplanations({
    directory,
    room: () => state.room,
    oldestEventAt: () => state.oldest,
    clock,
    logger,
  });
  await explanations.open();
  return Object.assign(explanations, { logger, state });
}

/** A frame of one tenant as earlier releases wrote it, in which the table told only where its block is. */
function asMarkedMfe1(frame: Buffer): Buffer {
  const [bytes, changed, valued] = [
    frame.readDoubleBE(8),
    frame.readUInt32BE(36),
    frame.readUInt32BE(40),
  ];
  const [at, end] = [bytes - valued - changed, bytes - valued];
  const places = JSON.parse(zstdDecompressSync(frame.subarray(at, end)).toString());
  const blocks = (places as readonly (readonly unknown[])[]).map((place) => place.slice(0, 3));
  const table = zstdCompressSync(JSON.stringify(blocks));
  const header = Buffer.from(frame.subarray(0, 48));
  header.write('mfe1', 0, 'latin1');
  header.writeDoubleBE(at + table.length + valued, 8);
  header.writeUInt32BE(table.length, 36);
  header.writeUInt32BE(crc32(header.subarray(8)), 4);
  return Buffer.concat([header, frame.subarray(48, at), table, frame.subarray(end)]);
}

/** A pod of a tenant: from when to when it ran, and what it had. Infinity while it runs. */
interface Life {
  readonly tenant: string;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  /** Nanocores; a list is what it used in the parts of each window. */
  readonly rate: bigint | ((window: number) => readonly bigint[]);
}

const REQUESTS = { cpu: CORE, memory: 2n ** 30n * CORE, extended: new Map<string, number>() };
const LABELS = { managedBy: 'a' };
const states = new Map<string, Evidence['state']>();
const stateOf = (node: string): Evidence['state'] => {
  const state = states.get(node) ?? { labels: LABELS, requests: REQUESTS, node };
  states.set(node, state);
  return state;
};

/** As Kubernetes makes them: nothing about one says anything about the next. */
function uidOf(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return [
    [0, 8],
    [8, 12],
    [12, 16],
    [16, 20],
    [20, 32],
  ]
    .map(([a, b]) => hex.slice(a, b))
    .join('-');
}

type Closed = ClosedWindow & { readonly events: readonly UsageEvent[] };

/** Measures and closes a window in which these lived, as the operator does. */
function closing(start: number, lives: readonly Life[], windowMs = MINUTE, late = 3_000): Closed {
  const window = { start, end: start + windowMs };
  const tally = createTally();
  for (const { tenant, name, from: began, to: ended, rate } of lives) {
    const [from, to] = [Math.max(began, start), Math.min(ended, window.end)];
    if (to <= from) continue;
    const object = { uid: uidOf(name), namespace: 'tenant-a', name };
    const state = stateOf(`node-${Number.parseInt(object.uid.slice(0, 2), 16)}`);
    const bounds = { from: from - start, to: to - start, carried: false };
    const evidence: Evidence = { kind: 'Pod', object, state, ...bounds };
    for (const metric of ['tenant_cpu_core_hours', 'tenant_memory_gb_hours'] as const) {
      const charge = tally.charge({ tenant, metric, region: 'default', resource_id: tenant });
      const parts = typeof rate === 'bigint' ? [rate] : rate(start);
      for (const [index, part] of parts.entries()) {
        const edge = (of: number): number => Math.floor(((to - from) * of) / parts.length);
        const ms = edge(index + 1) - edge(index);
        addTo(charge, { carried: false, weight: 1, ms }, part * PER_CORE[metric], evidence);
      }
    }
  }
  const { settled } = settleCredits(tally.charges(), [], window.end, 6 * HOUR);
  const closedAt = window.end + late;
  const recordedAt = formatInstant(closedAt);
  const assembled = assembleEvents(settled, { window, recordedAt, backfilled: false });
  expect(assembled.refused).toEqual([]);
  return { window, closedAt, events: assembled.events, sources: assembled.sources };
}

function podsOf(tenant: string, count: number, from = 0, to = Infinity): readonly Life[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `${tenant.slice(0, 20)}-worker-${index}-x-prod-x-${tenant.slice(0, 20)}`;
    return { tenant, name, from, to, rate: CORE };
  });
}

/** What is wrong with the explanation of an event; undefined when nothing is. */
async function faultOf(explanations: Explanations, event: UsageEvent): Promise<string | undefined> {
  const found = await explanations.find(event);
  if (found.kind === 'gone') return found.reason;
  const { shares, rest, givenBack, addsUp, subjects } = found.explanation;
  const sum = shares.reduce((all, share) => all + share[6], rest.quantity + givenBack);
  if (!addsUp) return `does not add up: ${sum}, not ${event.quantity}`;
  if (shares.some(([subject]) => subjects[subject] === undefined)) return 'says nothing of a pod';
  const rounding = (shares.length + 2) * 0.6e-9;
  return Math.abs(sum - Number(event.quantity)) <= rounding ? undefined : `${sum}`;
}

async function expectExplained(explanations: Explanations, ...closed: Closed[]): Promise<void> {
  for (const event of closed.flatMap(({ events }) => events)) {
    expect(await faultOf(explanations, event), `${event.metric} ${event.window_end}`).toBe(
      undefined,
    );
  }
}

function eventOf({ events }: Closed, tenant?: string): UsageEvent {
  const event = events.find((one) => tenant === undefined || one.tenant === tenant);
  if (event === undefined) throw new Error('no such event');
  return event;
}

async function bytesOnDisk(): Promise<number> {
  const sizes = (await readdir(directory)).map(async (name) => stat(join(directory, name)));
  return (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0);
}

describe('explanations', () => {
  test('are found again after a restart, of every tenant by itself', async () => {
    const tenants = ['a', '__proto__', 'ü" '];
    const closed = closing(
      START,
      tenants.flatMap((tenant) => podsOf(tenant, 2)),
    );
    await (await open()).keep(closed);
    const restarted = await open();
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
    await explanations.keep(closed);
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
    const looks: number[] = [];
    // Every look at it finds that ten milliseconds have passed.
    const monotonic = (): number => {
      looks.push(others);
      return (now += 10);
    };
    const explanations = await open(2 ** 30, { monotonic });
    const pods = Array.from({ length: 90 }, (_, index) => podsOf(`tenant-${index}`, 1)).flat();
    await explanations.keep(closing(START, pods));
    const closed = closing(START + MINUTE, pods);
    looks.length = 0;
    const kept = new AbortController();
    const count = (): void => {
      others += 1;
      if (!kept.signal.aborted) setImmediate(count);
    };
    setImmediate(count);
    await explanations.keep(closed);
    kept.abort();
    // One look for each tenant, and others had their turn in between.
    expect(looks.length).toBeGreaterThan(90);
    expect(new Set(looks).size).toBeGreaterThan(20);
    await expectExplained(explanations, closed);
  });

  test('of one window that was closed in parts are all kept, in one millisecond too', async () => {
    const explanations = await open();
    const parts = ['a', 'b', 'c'].map((tenant, index) =>
      closing(START, podsOf(tenant, 1), MINUTE, index === 0 ? 3_000 : 60_000),
    );
    for (const part of parts) await explanations.keep(part);
    await expectExplained(explanations, ...parts);
  });

  test('of a month are all there: a pod that runs all the time is written once a day', async () => {
    const explanations = await open();
    const windows = Array.from({ length: 31 * 24 }, (_, hour) => START + hour * HOUR);
    const [always, later] = [podsOf('a', 1), podsOf('a', 2, START + 3 * DAY, START + 3 * DAY + 90)];
    const closed = windows.map((start) => closing(start, [...always, ...later.slice(1)], HOUR));
    for (const one of closed) await explanations.keep(one);
    const restarted = await open();
    for (const index of [0, 1, 71, 72, 73, 400, closed.length - 1]) {
      const one = closed[index];
      if (one !== undefined) await expectExplained(restarted, one);
    }
    const [oldest] = closed;
    const found = oldest === undefined ? undefined : await restarted.find(eventOf(oldest));
    expect(found).toMatchObject({
      explanation: {
        measured: 1,
        shares: [[0, uidOf(always[0]?.name ?? ''), always[0]?.name, 0, 0, HOUR, 1, 0]],
        subjects: [{ kind: 'Pod', requests: { cpu: 1, memoryGib: 1 } }],
      },
    });
    // Neither a window in which nothing changed nor a day costs more than its heads.
    expect(await readdir(directory)).toHaveLength(32);
    expect(await bytesOnDisk()).toBeLessThan(windows.length * 48 + 32 * 700);
  });

  test('go with the events: what the ledger has no more takes no room', async () => {
    const explanations = await open();
    const closed = [0, 1, 2, 3, 4].map((day) => closing(START + day * DAY, podsOf('a', 3)));
    for (const one of closed) await explanations.keep(one);
    explanations.state.oldest = START + 3 * DAY;
    const last = closing(START + 4 * DAY + MINUTE, podsOf('a', 3));
    await explanations.keep(last);
    await expectExplained(explanations, ...closed.slice(2), last);
    expect(await readdir(directory)).toHaveLength(3);
    const [gone] = closed;
    expect(gone && (await explanations.find(eventOf(gone))).kind).toBe('gone');
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
          const closed: Closed[] = [];
          let explanations = await open();
          for (const [number, restart] of restarts.entries()) {
            if (restart) explanations = await open();
            const one = closing(START + number * MINUTE, lives);
            closed.push(one);
            await explanations.keep(one);
          }
          await expectExplained(explanations, ...closed);
          await rm(directory, { recursive: true });
        },
      ),
      { numRuns: 12 },
    );
    await open();
  });

  test('never take more room than there is, and the oldest go first', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 8_000, max: 30_000 }),
        async (sizes, room) => {
          const explanations = await open(room);
          const closed = sizes.map((size, number) => {
            const tenants = Array.from({ length: size }, (_, index) => `t${index}`);
            const lives = tenants.flatMap((tenant) => podsOf(tenant, 1));
            return closing(START + number * 8 * HOUR, lives);
          });
          for (const one of closed) {
            await explanations.keep(one);
            expect(await bytesOnDisk()).toBeLessThanOrEqual(room);
          }
          const faults = closed.map(async (one) => faultOf(explanations, eventOf(one, 't0')));
          const kept = (await Promise.all(faults)).map((fault) => fault === undefined);
          expect(kept).toEqual(kept.toSorted((a, b) => Number(a) - Number(b)));
          expect(kept.at(-1) === true || sizes.some((size) => size >= 20)).toBe(true);
          await rm(directory, { recursive: true });
        },
      ),
      { numRuns: 12 },
    );
    await open();
  });

  test('of a tenant whose objects come and go all the time are cut short, and nobody else’s', async () => {
    const room = 400_000;
    const explanations = await open(room);
    const quiet = podsOf('quiet', 5);
    const closed: Closed[] = [];
    for (let number = 0; number < 40; number += 1) {
      const start = START + number * MINUTE;
      const churn = podsOf('hostile', 300).map((life) => ({
        ...life,
        name: `${number}${life.name}`,
      }));
      const one = closing(start, [...churn, ...quiet]);
      closed.push(one);
      await explanations.keep(one);
    }
    for (const one of closed) {
      expect(await faultOf(explanations, eventOf(one, 'quiet'))).toBe(undefined);
    }
    expect(await bytesOnDisk()).toBeLessThan(room / 4);
    const last = closed.at(-1);
    const found = last && (await explanations.find(eventOf(last, 'hostile')));
    expect(found).toMatchObject({ kind: 'gone', reason: expect.stringContaining('came and went') });
    // The next day it begins anew.
    const tomorrow = closing(START + DAY, [...podsOf('hostile', 3), ...quiet]);
    await explanations.keep(tomorrow);
    await expectExplained(explanations, tomorrow);
  });

  test('that a kill or a disk has torn are gone, and cost nothing else', async () => {
    const explanations = await open();
    const [first, second] = [
      closing(START, podsOf('a', 3)),
      closing(START + MINUTE, podsOf('a', 4)),
    ];
    await explanations.keep(first);
    await explanations.keep(second);
    const [name = ''] = await readdir(directory);
    await truncate(join(directory, name), (await bytesOnDisk()) - 1);
    await writeFile(join(directory, '1767225600000-1767225603000.explanations'), 'of a day');
    const restarted = await open();
    await expectExplained(restarted, first);
    expect((await restarted.find(eventOf(second))).kind).toBe('gone');
    const third = closing(START + 2 * MINUTE, podsOf('a', 5));
    await restarted.keep(third);
    await expectExplained(restarted, first, third);
    expect(await readdir(directory)).toEqual([name, name.replace('-1.', '-2.')]);
    await writeFile(join(directory, name), 'damaged');
    expect((await restarted.find(eventOf(first))).kind).toBe('gone');
    await expectExplained(restarted, third);
    expect(restarted.logger.lines).toEqual([]);
  });

  test('that an earlier release has written are found', async () => {
    const explanations = await open();
    const closed = closing(START, podsOf('a', 3));
    await explanations.keep(closed);
    const [name = ''] = await readdir(directory);
    const path = join(directory, name);
    await writeFile(path, asMarkedMfe1(await readFile(path)));
    await expectExplained(await open(), closed);
  });

  test('that cannot be written hold up no window, are missed once in the log, and go on afterwards', async () => {
    const explanations = await open();
    await explanations.keep(closing(START, podsOf('a', 2)));
    await rm(directory, { recursive: true });
    await writeFile(directory, 'in the way');
    const missed = [1, 2].map((number) =>
      closing(START + number * MINUTE, podsOf('a', 2 + number)),
    );
    for (const one of missed) await explanations.keep(one);
    expect(explanations.logger.lines.filter((line) => line.includes('explanations'))).toHaveLength(
      1,
    );
    for (const one of missed) {
      expect((await explanations.find(eventOf(one))).kind).toBe('gone');
    }
    await rm(directory);
    await open();
    const later = closing(START + 3 * MINUTE, podsOf('a', 5));
    await explanations.keep(later);
    await expectExplained(explanations, later);
  });

  test('take less than 100 bytes for a pod and day, and 12 more for each window where usage is billed', async () => {
    const tenants = Array.from({ length: 10 }, (_, number) => `tenant-vcluster-${number}`);
    const steady = tenants.flatMap((tenant) => podsOf(tenant, 100));
    const explanations = await open();
    for (let number = 0; number < 60; number += 1) {
      await explanations.keep(closing(START + number * MINUTE, steady));
    }
    const perDay = (await bytesOnDisk()) / steady.length;
    expect(perDay).toBeLessThan(100);
    await rm(directory, { recursive: true });
    const sampled = steady.map((life, index) => ({
      ...life,
      rate: (start: number) => [0, 1].map((part) => used(index, start + part)),
    }));
    const ofUsage = await open();
    const windows = 30;
    for (let number = 0; number < windows; number += 1) {
      await ofUsage.keep(closing(START + number * MINUTE, sampled));
    }
    const perWindow = ((await bytesOnDisk()) / sampled.length - perDay) / windows;
    expect(perWindow).toBeLessThan(12);
    await rm(directory, { recursive: true });
    const ofChurn = await open();
    const lifetimes = 20;
    for (let number = 0; number < lifetimes; number += 1) {
      const [from, to] = [START + number * MINUTE, START + (number + 1) * MINUTE - 7_000 - number];
      const pods = tenants.flatMap((tenant) => podsOf(tenant, 20, from, to));
      const named = pods.map((life) => ({ ...life, name: `${life.name}-${number}` }));
      await ofChurn.keep(closing(from, named));
    }
    const perLife = (await bytesOnDisk()) / (lifetimes * tenants.length * 20);
    expect(perLife).toBeLessThan(100);
  });
});

/** Up to four cores, nothing like the pod's before or the next one's. */
function used(pod: number, at: number): bigint {
  return BigInt(((pod + 1) * 2_654_435_761 + at * 40_503) % 4_000_000_000);
}
