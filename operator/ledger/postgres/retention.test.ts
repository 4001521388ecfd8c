import { describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../config/settings.ts';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock, type StepClock } from '../testing/step-clock.ts';

const used = usePostgres();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Ten events on each of three days. */
async function fill(ledger: Ledger, clock: StepClock): Promise<void> {
  for (let day = 0; day < 3; day++) {
    await ledger.append({ events: testWindow(clock.now(), 10) });
    clock.pass(DAY_MS);
  }
}

async function seriesCount({ name }: LedgerDatabase): Promise<number> {
  return (await used.server().query('select from meterfeed.series', name)).length;
}

describe('retention', () => {
  test('drops days that every destination has passed and that are old, and nothing else', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const database = await used.server().createDatabase();
    const ledger = await openTestStream(database, { clock, retentionMs: DAY_MS });
    await fill(ledger, clock);
    await ledger.commitCursor('fast', 30);
    await ledger.commitCursor('slow', 19);
    clock.pass(10 * DAY_MS);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(10);
    expect(await ledger.read(19, 100)).toMatchObject({ kind: 'page', lastSequence: 20 });
    await ledger.commitCursor('slow', 30);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(30);
    expect(ledger.stats()).toMatchObject({
      segments: 0,
      horizon: TEST_WINDOW_START + 2 * DAY_MS + 60_000,
    });
    expect(await seriesCount(database)).toBe(0);
    expect(await ledger.append({ events: testWindow(clock.now(), 2) })).toMatchObject({ head: 32 });
    expect(await ledger.read(0, 10)).toMatchObject({
      events: [{ sequence: 31 }, { sequence: 32 }],
    });
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });

  test('keeps a day for the slowest stream in it, and its series', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const database = await used.server().createDatabase();
    const options = { clock, retentionMs: DAY_MS };
    const ours = await openTestStream(database, options);
    const theirs = await openTestStream(database, { ...options, source: 'b', region: 'b' });
    await theirs.append({ events: [testEvent()] });
    await theirs.commitCursor('lago', 0);
    await fill(ours, clock);
    clock.pass(10 * DAY_MS);
    await ours.retain(clock.now());
    expect(ours.lowWater()).toBe(0);
    await theirs.commitCursor('lago', 1);
    await ours.retain(clock.now());
    expect(ours.lowWater()).toBe(30);
    // The other process finds out when it next writes, and goes on with a series that is gone.
    expect(await theirs.append({ events: testWindow(clock.now(), 1) })).toMatchObject({ head: 2 });
    expect(theirs.lowWater()).toBe(1);
    expect(
      await theirs.append({ events: [testEvent({ windowStart: clock.now() })] }),
    ).toMatchObject({
      head: 3,
    });
    expect(await theirs.read(0, 10)).toMatchObject({ kind: 'page', lastSequence: 3 });
    expect((await theirs.verify()).errors).toEqual([]);
    await ours.close();
    await theirs.close();
  });

  test('a repeat is known as such as long as its day is kept, whatever day it is repeated on', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const database = await used.server().createDatabase();
    const ledger = await openTestStream(database, { clock });
    const events = [...testWindow(TEST_WINDOW_START, 3), testEvent({ id: 'own-1' })];
    await ledger.append({ events });
    for (const _ of [1, 2, 3]) {
      clock.pass(DAY_MS);
      await ledger.append({ events: testWindow(clock.now(), 3) });
      expect(await ledger.append({ events })).toMatchObject({
        outcomes: events.map(() => 'duplicate'),
      });
    }
    await ledger.close();
  });

  test('a clock that steps back a day stores behind what is there, in order', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const ledger = await openTestStream(await used.server().createDatabase(), { clock });
    await ledger.append({ events: testWindow(TEST_WINDOW_START, 3) });
    clock.pass(-2 * DAY_MS);
    await ledger.append({ events: testWindow(TEST_WINDOW_START - DAY_MS, 3) });
    expect(ledger.stats().segments).toBe(1);
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });
});
