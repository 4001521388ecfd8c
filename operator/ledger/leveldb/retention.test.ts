import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { createStepClock, type StepClock } from '../testing/step-clock.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { KEY_SPACE, textKey } from './keys.ts';
import type { LevelLedgerOptions } from './open-level-ledger.ts';

const used = useLedgers();
const HOUR_MS = 3_600_000;
const RETENTION_MS = 24 * HOUR_MS;

/** A ledger with three sealed segments of ten events, written within a few minutes. */
async function openFilled(
  clock: StepClock,
  options: Partial<LevelLedgerOptions> = {},
): Promise<[ledger: Ledger, directory: string]> {
  const directory = await used.directory();
  const ledger = await used.open(directory, {
    clock,
    retentionMs: RETENTION_MS,
    segmentLimits: { events: 10, bytes: Number.MAX_SAFE_INTEGER },
    ...options,
  });
  for (let window = 0; window < 7; window++) {
    await ledger.append({ events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 5) });
    clock.pass(TEST_WINDOW_MS);
  }
  return [ledger, directory];
}

describe('retention', () => {
  test('deletes nothing that a slow destination has not been given', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger] = await openFilled(clock);
    await ledger.commitCursor('fast', 35);
    await ledger.commitCursor('slow', 14);
    clock.pass(10 * RETENTION_MS);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(10);
    expect(await ledger.read(14, 100)).toMatchObject({ kind: 'page', lastSequence: 20 });
    await ledger.commitCursor('slow', 30);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(30);
    expect((await ledger.verify()).errors).toEqual([]);
  });

  test('evidence goes with the events of its windows, is copied into no new segment, and damage to it stops nothing', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const directory = await used.directory();
    const options = {
      clock,
      retentionMs: RETENTION_MS,
      segmentLimits: { events: 10, bytes: Number.MAX_SAFE_INTEGER },
    };
    const ledger = await used.open(directory, options);
    const keyOf = (window: number): string => `evidence/2026-11-21T09:00:00Z/a/${window}`;
    for (let window = 0; window < 7; window++) {
      const events = testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 5);
      const records = [
        { key: keyOf(window), value: String(window) },
        { key: 'journal/state', value: String(window) },
      ];
      await ledger.append({ events, records });
      clock.pass(TEST_WINDOW_MS);
    }
    const listed = async (of: Ledger): Promise<readonly string[]> =>
      (await Array.fromAsync(of.records('evidence/2026-11-21T09:00:00Z/a/'))).map(
        ([, value]) => value,
      );
    expect(await listed(ledger)).toEqual(['0', '1', '2', '3', '4', '5', '6']);
    await ledger.commitCursor('lago', 25);
    clock.pass(10 * RETENTION_MS);
    await ledger.retain(clock.now());
    expect(await listed(ledger)).toEqual(['4', '5', '6']);
    expect(await ledger.record(keyOf(3))).toBeUndefined();
    await ledger.close();

    const again = await used.open(directory, options);
    expect(await listed(again)).toEqual(['4', '5', '6']);
    expect(await again.record('journal/state')).toBe('6');
    expect(await again.verify()).toMatchObject({ ok: true, errors: [] });
    expect(again.stats().problems).toEqual([]);
    await again.close();

    const active = join(directory, 'segment-000000000000001f');
    const database = new ClassicLevel<Buffer, Buffer>(active, {
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
    });
    await database.put(textKey(KEY_SPACE.evidence, keyOf(6)), Buffer.from('damaged'));
    await database.close();
    const damaged = await used.open(directory, options);
    await expect(listed(damaged)).rejects.toThrow('the record is damaged');
    expect(damaged.stats().problems).toEqual([]);
    expect(await damaged.verify()).toMatchObject({ ok: true, errors: [] });
  });

  test('keeps what is younger than RETENTION, and follows a changed one', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger] = await openFilled(clock);
    await ledger.commitCursor('lago', 35);
    clock.pass(RETENTION_MS - HOUR_MS);
    await ledger.retain(clock.now());
    expect(ledger.stats()).toMatchObject({ segments: 4, horizon: 0 });
    ledger.setRetention(HOUR_MS);
    await ledger.retain(clock.now());
    expect(ledger.stats().segments).toBe(1);
    expect(ledger.stats().horizon).toBe(TEST_WINDOW_START + 6 * TEST_WINDOW_MS);
  });

  test('a RETENTION of an hour keeps no day of events: there are never more than of two hours', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const directory = await used.directory();
    const ledger = await used.open(directory, { clock, retentionMs: RETENTION_MS });
    ledger.setRetention(HOUR_MS);
    let stored: number[] = [];
    for (let minute = 0; minute < 300; minute += 1) {
      await ledger.append({ events: testWindow(clock.now(), 1) });
      await ledger.commitCursor('lago', ledger.head());
      clock.pass(60_000);
      await ledger.retain(clock.now());
      stored = [...stored, ledger.head() - ledger.lowWater()];
    }
    expect(Math.max(...stored)).toBeLessThanOrEqual(120);
    expect(Math.min(...stored.slice(120))).toBeGreaterThanOrEqual(60);
    expect((await ledger.verify()).errors).toEqual([]);
  });

  test('never deletes the active segment', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger] = await openFilled(clock);
    clock.pass(100 * RETENTION_MS);
    await ledger.retain(clock.now());
    expect(await ledger.read(0, 100)).toMatchObject({ lastSequence: 35 });
    expect(ledger.lowWater()).toBe(30);
  });

  test('is held back by a retired cursor until RETENTION has passed since', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger] = await openFilled(clock);
    await ledger.commitCursor('lago', 35);
    await ledger.commitCursor('gone', 5);
    clock.pass(10 * RETENTION_MS);
    await ledger.retireCursor('gone', clock.now());
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(0);
    clock.pass(RETENTION_MS);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(30);
  });

  test('frees the disk at once', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger, directory] = await openFilled(clock);
    clock.pass(10 * RETENTION_MS);
    await ledger.retain(clock.now());
    const names = await readdir(directory);
    expect(names.filter((name) => /^(segment|trash)/.test(name))).toHaveLength(1);
  });

  test('a crash between deleting and having deleted is finished at the next start', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const [ledger, directory] = await openFilled(clock);
    await ledger.close();
    await rename(
      join(directory, 'segment-0000000000000001'),
      join(directory, 'trash-0000000000000001'),
    );
    const again = await used.open(directory);
    expect(await readdir(directory)).not.toContain('trash-0000000000000001');
    expect(again.stats().problems).toEqual([expect.stringContaining('segment-0000000000000001')]);
  });
});

describe('a volume that fills up', () => {
  const FREE = 1_000_000;

  test('gives back delivered segments before their time, oldest first, and says so', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const disk = { free: FREE };
    const [ledger] = await openFilled(clock, { freeBytes: async () => disk.free });
    await ledger.commitCursor('lago', 25);
    await ledger.retain(clock.now());
    expect(ledger.stats()).toMatchObject({ segments: 4, disk: { retentionShortened: false } });
    disk.free = Math.floor(ledger.stats().bytes / 4);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(20);
    expect(ledger.stats().disk.retentionShortened).toBe(true);
    expect(await ledger.read(25, 100)).toMatchObject({ kind: 'page', lastSequence: 30 });
  });

  test('refuses pushed events first, windows last, and cursors never', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const disk = { share: 0.5 };
    const holder: { ledger?: Ledger } = {};
    const [ledger] = await openFilled(clock, {
      freeBytes: async () => {
        const bytes = holder.ledger?.stats().bytes ?? 1;
        return bytes / disk.share - bytes;
      },
      reserveBytes: 1,
    });
    holder.ledger = ledger;
    const next = (offset: number) => testWindow(TEST_WINDOW_START + offset * HOUR_MS, 1);
    const kinds = async (offset: number): Promise<string[]> => {
      clock.pass(60_000);
      await ledger.retain(0);
      const pushed = await ledger.append({ events: next(offset) });
      const window = await ledger.append({ events: next(offset + 1), windowEnd: 1 });
      const cursor = await ledger.commitCursor('lago', 1);
      return [pushed, window, cursor].map((outcome) =>
        outcome.kind === 'failed' ? outcome.cause : outcome.kind,
      );
    };
    expect(await kinds(1)).toEqual(['appended', 'appended', 'written']);
    disk.share = 0.8;
    expect(await kinds(3)).toEqual(['appended', 'appended', 'written']);
    expect(ledger.stats().disk.level).toBe('warn');
    disk.share = 0.9;
    expect(await kinds(5)).toEqual(['full', 'appended', 'written']);
    expect(ledger.stats().disk.level).toBe('ingest-refused');
    disk.share = 0.97;
    expect(await kinds(7)).toEqual(['full', 'full', 'written']);
    disk.share = 0.5;
    expect(await kinds(7)).toEqual(['appended', 'appended', 'written']);
  });
});
