import { expect, test } from 'vitest';
import { createMemoryLedger } from './testing/memory-ledger.ts';
import { stretchThatFits, volumeForRequests, volumeNeeded } from './volume-needed.ts';

const WEEK_MS = 7 * 86_400_000;
const GIB = 1024 ** 3;

test('a volume that is too small for RETENTION is known before it is full', () => {
  const needed = (clusters: number, windowMs: number) =>
    volumeNeeded({ eventsPerWindow: 10 * clusters, windowMs, retentionMs: WEEK_MS }) / GIB;
  expect(needed(100, 60_000)).toBeCloseTo(3.13, 2);
  expect(needed(1_000, 60_000)).toBeLessThan(32);
  expect(needed(1_000, 300_000)).toBeCloseTo(needed(200, 60_000), 5);
  expect(needed(100, 10_000)).toBeCloseTo(6 * needed(100, 60_000), 5);
});

test('1,000 requests of AI gateways a second need what the documentation says', () => {
  const needed = (hours: number) =>
    volumeForRequests({ requestsPerSecond: 1_000, lateForMs: hours * 3_600_000 }) / 1e9;
  expect(needed(2)).toBeCloseTo(3.6, 5);
  expect(needed(24)).toBeCloseTo(30, 5);
});

test('a destination that gets nothing fills the volume, and nobody knows when', () => {
  const events = 4 * 1024 ** 2;
  const stats = createMemoryLedger().stats();
  const ledger = (roomBytes: number) => ({
    head: () => 100 + events,
    lowWater: () => 100,
    stats: () => ({ ...stats, roomBytes, oldestAt: WEEK_MS }),
  });
  // A GiB in a week.
  const fits = stretchThatFits(ledger(4 * GIB), 2 * WEEK_MS) ?? 0;
  expect(fits / WEEK_MS).toBeCloseTo((0.95 * 4 * 1024) / 1000, 5);
  expect(stretchThatFits(ledger(0), 2 * WEEK_MS)).toBeUndefined();
  expect(stretchThatFits({ ...ledger(GIB), head: () => 100 }, 2 * WEEK_MS)).toBeUndefined();
});
