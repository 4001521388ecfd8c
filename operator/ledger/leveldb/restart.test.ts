import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { readContent } from '../testing/sample-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { listSegmentDirectories } from './segment-names.ts';

const used = useLedgers();
const DAY_MS = 86_400_000;
const SMALL_SEGMENTS = { events: 10, bytes: Number.MAX_SAFE_INTEGER };

describe('a restart', () => {
  test('finds events, records, cursors, the last window and the chain as they were', async () => {
    const directory = await used.directory();
    const first = await used.open(directory, { segmentLimits: SMALL_SEGMENTS });
    for (let window = 0; window < 6; window++) {
      const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
      await first.append({
        events: testWindow(windowStart, 4),
        records: [{ key: `k${window}`, value: 'v' }],
        windowEnd: windowStart + TEST_WINDOW_MS,
      });
    }
    await first.commitCursor('lago', 7);
    await first.retireCursor('lago', 5);
    const before = await readContent(first);
    const { chain } = first.stats();
    await first.close();

    const second = await used.open(directory);
    expect(await readContent(second)).toEqual(before);
    expect(second.stats()).toMatchObject({ chain, segments: 2, sequence: 24, problems: [] });
    expect((await second.verify()).errors).toEqual([]);
  });

  test('does not let an event in again that an older segment holds', async () => {
    const directory = await used.directory();
    const events = Array.from({ length: 5 }, (_, window) =>
      testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 10),
    );
    const first = await used.open(directory, { segmentLimits: SMALL_SEGMENTS });
    for (const window of events) await first.append({ events: window });
    await first.close();

    const second = await used.open(directory, { segmentLimits: SMALL_SEGMENTS });
    expect(second.stats().segments).toBe(5);
    for (const window of events) {
      const outcome = await second.append({ events: window });
      expect(outcome).toMatchObject({ outcomes: window.map(() => 'duplicate'), head: 50 });
    }
  });

  test("finds a client's own id in an older segment, whatever window it comes with", async () => {
    const directory = await used.directory();
    const ledger = await used.open(directory, { segmentLimits: SMALL_SEGMENTS });
    await ledger.append({ events: [testEvent({ id: 'own', tenant: 'client' })] });
    for (let window = 1; window < 4; window++) {
      await ledger.append({
        events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 10),
      });
    }
    const later = TEST_WINDOW_START + 3 * DAY_MS;
    const outcome = await ledger.append({
      events: [
        testEvent({ id: 'own', tenant: 'client' }),
        testEvent({ id: 'own', tenant: 'client', windowStart: later }),
        testEvent({ id: 'other', tenant: 'client', windowStart: later }),
      ],
    });
    expect(outcome).toMatchObject({ outcomes: ['duplicate', 'conflict', 'accepted'] });
  });

  test('continues the numbers, also into new segments', async () => {
    const directory = await used.directory();
    for (let round = 0; round < 4; round++) {
      const ledger = await used.open(directory, { segmentLimits: SMALL_SEGMENTS });
      const outcome = await ledger.append({
        events: testWindow(TEST_WINDOW_START + round * TEST_WINDOW_MS, 10),
      });
      expect(outcome).toMatchObject({ head: 10 * (round + 1) });
      await ledger.close();
    }
    const { segments } = await listSegmentDirectories(directory);
    expect(segments).toEqual([1, 11, 21, 31]);
  });
});

describe('a clock that steps', () => {
  test('begins a segment when the day changes, and none when it goes back', async () => {
    const directory = await used.directory();
    const clock = createStepClock(TEST_WINDOW_START);
    const ledger = await used.open(directory, { clock });
    const append = (window: number) =>
      ledger.append({ events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 2) });
    await append(0);
    clock.set(TEST_WINDOW_START - 3 * DAY_MS);
    await append(1);
    expect(ledger.stats().segments).toBe(1);
    clock.set(TEST_WINDOW_START + DAY_MS);
    await append(2);
    expect(ledger.stats().segments).toBe(2);
    clock.set(TEST_WINDOW_START);
    await append(3);
    expect(ledger.stats().segments).toBe(2);
    expect((await ledger.verify()).errors).toEqual([]);
  });

  test('stores a window that is measured again after it exactly once', async () => {
    const directory = await used.directory();
    const clock = createStepClock(TEST_WINDOW_START);
    const ledger = await used.open(directory, { clock, segmentLimits: SMALL_SEGMENTS });
    const window = testWindow(TEST_WINDOW_START, 6);
    await ledger.append({ events: window });
    for (const step of [DAY_MS, -2 * DAY_MS, 365 * DAY_MS]) {
      clock.set(TEST_WINDOW_START + step);
      await ledger.append({
        events: testWindow(TEST_WINDOW_START + Math.abs(step), 6),
      });
      expect(await ledger.append({ events: window })).toMatchObject({
        outcomes: window.map(() => 'duplicate'),
      });
    }
    expect(ledger.head()).toBe(24);
  });
});

describe('HEAD', () => {
  test('is at the newest batch after a stop', async () => {
    const directory = await used.directory();
    const ledger = await used.open(directory);
    await ledger.append({ events: testWindow(TEST_WINDOW_START, 3) });
    await ledger.close();
    expect(await readFile(join(directory, 'HEAD'), 'utf8')).toContain('"sequence":3');
  });
});
