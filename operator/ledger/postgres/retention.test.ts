import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { createStepClock, type StepClock } from '../testing/step-clock.ts';

const used = usePostgres();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const WEEK_MS = 7 * DAY_MS;

/** Ten events in each of three weeks. */
async function fill(ledger: Ledger, clock: StepClock): Promise<void> {
  for (let week = 0; week < 3; week++) {
    await ledger.append({ events: testWindow(clock.now(), 10) });
    clock.pass(WEEK_MS);
  }
}

async function partitions(name: string): Promise<number> {
  const text = `select from pg_class where relkind = 'r' and relname like 'event\\_%'`;
  return (await used.server().query(text, name)).length;
}

describe('retention', () => {
  test('drops weeks that every destination has passed and that are old, and nothing else', async () => {
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
      horizon: TEST_WINDOW_START + 2 * WEEK_MS + 60_000,
    });
    expect(await partitions(database.name)).toBe(0);
    expect(await ledger.append({ events: testWindow(clock.now(), 2) })).toMatchObject({ head: 32 });
    expect(await ledger.read(0, 10)).toMatchObject({
      events: [{ sequence: 31 }, { sequence: 32 }],
    });
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });

  test('waits for a reader of the week no longer than a moment, and drops it with the next run', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const database = await used.server().createDatabase();
    const ledger = await openTestStream(database, { clock, retentionMs: DAY_MS });
    await fill(ledger, clock);
    clock.pass(WEEK_MS);
    const { host, port, user, name } = database;
    const reader = new Client({ host, port, user, database: name });
    await reader.connect();
    await reader.query('begin; select count(*) from meterfeed_cluster_a.event');
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(0);
    expect(await ledger.append({ events: testWindow(clock.now(), 1) })).toMatchObject({ head: 31 });
    await reader.query('commit');
    await reader.end();
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(30);
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
    const again = await openTestStream(database, { clock });
    expect((await again.verify()).errors).toEqual([]);
    expect(again.stats().problems).toEqual([]);
    await again.close();
  });

  test('a repeat is known as such as long as its week is stored, in whatever week it is repeated', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const database = await used.server().createDatabase();
    const ledger = await openTestStream(database, { clock });
    const events = [...testWindow(TEST_WINDOW_START, 3), testEvent({ id: 'own-1' })];
    await ledger.append({ events });
    for (const _ of [1, 2, 3]) {
      clock.pass(WEEK_MS);
      await ledger.append({ events: testWindow(clock.now(), 3) });
      expect(await ledger.append({ events })).toMatchObject({
        outcomes: events.map(() => 'duplicate'),
      });
    }
    await ledger.close();
  });

  test('a clock that steps back a week stores behind what is there, in order', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const ledger = await openTestStream(await used.server().createDatabase(), { clock });
    await ledger.append({ events: testWindow(TEST_WINDOW_START, 3) });
    clock.pass(-WEEK_MS);
    await ledger.append({ events: testWindow(TEST_WINDOW_START - DAY_MS, 3) });
    expect(ledger.stats().segments).toBe(1);
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
  });
});
