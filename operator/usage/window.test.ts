import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatInstant, lastClosedWindow, overlapMs, windowsBetween } from './window.ts';

const sizes = fc.constantFrom(10_000, 60_000, 300_000, 3_600_000);
const times = fc.integer({ min: 0, max: 4_000_000_000_000 });

test('windows are multiples of their size since the epoch, whenever they are asked for', () => {
  fc.assert(
    fc.property(times, sizes, (now, size) => {
      const { start, end } = lastClosedWindow(now, size);
      expect([start % size === 0, end - start]).toStrictEqual([true, size]);
      expect(end <= now && now < end + size).toBe(true);
    }),
  );
});

test('no window is missing or twice between two ends', () => {
  fc.assert(
    fc.property(times, sizes, fc.integer({ min: 0, max: 50 }), (now, size, count) => {
      const from = lastClosedWindow(now, size).end;
      const windows = windowsBetween(from, from + count * size, size);
      expect(windows.map((window) => window.start)).toStrictEqual(
        Array.from({ length: count }, (_, index) => from + index * size),
      );
    }),
  );
});

test('an unfinished window is not among them', () => {
  expect(windowsBetween(0, 19_999, 10_000)).toStrictEqual([{ start: 0, end: 10_000 }]);
});

test('instants are spelled to the second', () => {
  expect(formatInstant(Date.UTC(2026, 10, 21, 9, 0, 0, 999))).toBe('2026-11-21T09:00:00Z');
});

test.each([
  [0, 10, 10, 20, 0],
  [0, 10, 5, 20, 5],
  [0, 30, 5, 20, 15],
  [20, 30, 0, 10, 0],
])('[%i, %i) and [%i, %i) share %i ms', (aFrom, aTo, bFrom, bTo, shared) => {
  expect(overlapMs(aFrom, aTo, bFrom, bTo)).toBe(shared);
  expect(overlapMs(bFrom, bTo, aFrom, aTo)).toBe(shared);
});
