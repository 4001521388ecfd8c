import { expect, test } from 'vitest';
import { volumeNeeded } from './volume-needed.ts';

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
