import { mkdtemp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import type { Settled } from '../metering/credits.ts';
import { addShare, type Charge } from '../metering/tally.ts';
import type { UsageEvent } from '../model/event.ts';
import { type ClosedWindow, createExplanations } from './explanations.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'explanations-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function open(room = 2 ** 20, now = TEST_WINDOW_START + TEST_WINDOW_MS) {
  const logger = createCapturingLogger();
  const state = { now };
  const options = { directory, room: () => room, now: () => state.now, logger };
  const explanations = createExplanations(options);
  await explanations.open();
  return Object.assign(explanations, { logger, state });
}

const settled = (tenant: string, objects: number): Settled => {
  const identity = { tenant, metric: 'tenant_lb_hours' };
  const amount = BigInt(objects) * 30_000n * 1_000_000_000n;
  const charge: Charge = { identity, amount, carried: 0n, carriedMs: 0, properties: {} };
  for (let index = 0; index < objects; index += 1) {
    const name = `${tenant}-${index}`;
    const object = { uid: `uid-${name}`, namespace: 'tenant-a', name };
    const bounds = { from: 0, to: 30_000, carried: false };
    addShare(charge, { kind: 'Service', object, state: {}, ...bounds }, 30_000n * 1_000_000_000n);
  }
  return { charge, total: amount, carriedMs: 0 };
};

function closing(
  number: number,
  tenants: readonly string[],
  objects = 1,
  everyMs = TEST_WINDOW_MS,
): ClosedWindow {
  const start = TEST_WINDOW_START + number * everyMs;
  return {
    window: { start, end: start + TEST_WINDOW_MS },
    closedAt: start + TEST_WINDOW_MS + 3_000,
    events: tenants.map((tenant) => testEvent({ tenant, windowStart: start })),
    sources: tenants.map((tenant) => settled(tenant, objects)),
  };
}

const eventOf = ({ events }: ClosedWindow, index = 0): UsageEvent => {
  const event = events[index];
  if (event === undefined) throw new Error('no such event');
  return event;
};

async function bytesOnDisk(): Promise<number> {
  const sizes = (await readdir(directory)).map(async (name) => stat(join(directory, name)));
  return (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0);
}

/** Three windows an hour. */
const SOME_MS = 20 * 60_000;

describe('explanations', () => {
  test('are found again after a restart, of every tenant by itself', async () => {
    const closed = closing(0, ['a', '__proto__', 'ü"\n']);
    await (await open()).keep(closed);
    const restarted = await open();
    for (const [index, event] of closed.events.entries()) {
      const found = await restarted.find(event);
      expect(found, `event ${index}`).toMatchObject({
        kind: 'found',
        explanation: {
          id: event.id,
          shares: [
            [0, `uid-${event.tenant}-0`, `${event.tenant}-0`, null, 0, 30_000, 0.008333333, 0],
          ],
        },
      });
    }
  });

  test('of one window that was closed in parts are all kept', async () => {
    const explanations = await open();
    const first = closing(0, ['a']);
    const second = { ...closing(0, ['b']), closedAt: first.closedAt + 60_000 };
    await explanations.keep(first);
    await explanations.keep(second);
    expect((await explanations.find(eventOf(first))).kind).toBe('found');
    expect((await explanations.find(eventOf(second))).kind).toBe('found');
  });

  test('go after 24 hours, and their files with them', async () => {
    const explanations = await open();
    const closed = closing(0, ['a']);
    await explanations.keep(closed);
    explanations.state.now += 24 * 3_600_000 + 1;
    expect(await explanations.find(eventOf(closed))).toEqual({
      kind: 'gone',
      reason: 'explanations are kept for 24 hours after the window',
    });
    await explanations.keep(closing(1440, ['a']));
    expect(await readdir(directory)).toHaveLength(1);
  });

  test('never take more room than there is, and the oldest go first', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 0, max: 20_000 }),
        async (sizes, room) => {
          const explanations = await open(room);
          const kept: boolean[] = [];
          for (const [number, objects] of sizes.entries()) {
            await explanations.keep(closing(number, ['a', 'b'], objects, SOME_MS));
            expect(await bytesOnDisk()).toBeLessThanOrEqual(room);
          }
          for (const number of sizes.keys()) {
            const event = eventOf(closing(number, ['a'], 1, SOME_MS));
            kept.push((await explanations.find(event)).kind === 'found');
          }
          expect(kept.lastIndexOf(false)).toBeLessThan(
            kept.includes(true) ? kept.indexOf(true) : kept.length,
          );
          await rm(directory, { recursive: true });
        },
      ),
      { numRuns: 25 },
    );
    await open();
  });

  test('that a crash or a disk has torn are gone, and cost nothing else', async () => {
    const explanations = await open();
    const [first, second] = [closing(0, ['a']), closing(1, ['a'])];
    await explanations.keep(first);
    await explanations.keep(second);
    const [nameOfFirst = '', nameOfSecond = ''] = (await readdir(directory)).toSorted();
    await truncate(join(directory, nameOfSecond), 20);
    await writeFile(join(directory, `${nameOfSecond}.tmp`), 'half');
    const restarted = await open();
    expect((await restarted.find(eventOf(first))).kind).toBe('found');
    expect((await restarted.find(eventOf(second))).kind).toBe('gone');
    expect(await readdir(directory)).toHaveLength(2);
    // The one that others of its hour lean on.
    await truncate(join(directory, nameOfFirst), 20);
    const third = closing(2, ['a']);
    await restarted.keep(third);
    expect((await restarted.find(eventOf(third))).kind).toBe('found');
    expect(restarted.logger.lines).toEqual([]);
  });

  test('of a window much like the one before take little more room', async () => {
    const explanations = await open();
    await explanations.keep(closing(0, ['a'], 1_000));
    const first = await bytesOnDisk();
    await explanations.keep(closing(1, ['a', 'new'], 1_000));
    const restarted = await open();
    for (const event of closing(1, ['a', 'new'], 1_000).events) {
      const found = await restarted.find(event);
      expect(found.kind === 'found' && found.explanation.shares.length).toBe(1_000);
    }
    await rm(directory, { recursive: true });
    const alone = await open();
    await alone.keep(closing(1, ['a', 'new'], 1_000));
    const both = await bytesOnDisk();
    await alone.keep(closing(2, ['a', 'new'], 1_000));
    expect((await bytesOnDisk()) - both).toBeLessThan(first / 2);
  });

  test('are found of every window of an hour, in whatever order the clock says that they were closed', async () => {
    const explanations = await open();
    const closed = [0, 1, 2, 3].map((number) => ({
      ...closing(number, ['a'], 50),
      closedAt: TEST_WINDOW_START + 600_000 - number * 60_000,
    }));
    for (const one of closed) await explanations.keep(one);
    for (const one of closed) {
      expect(await explanations.find(eventOf(one))).toMatchObject({ kind: 'found' });
    }
    expect(explanations.logger.lines).toEqual([]);
  });

  test('that cannot be written hold up no window, and are missed once in the log', async () => {
    const explanations = await open();
    await rm(directory, { recursive: true });
    await writeFile(directory, 'in the way');
    await explanations.keep(closing(0, ['a']));
    await explanations.keep(closing(1, ['a']));
    expect(explanations.logger.lines.filter((line) => line.includes('explanations'))).toHaveLength(
      1,
    );
    expect((await explanations.find(eventOf(closing(0, ['a'])))).kind).toBe('gone');
  });
});
