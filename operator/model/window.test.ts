import { expect, test } from 'vitest';
import { formatInstant, overlapMs } from './window.ts';

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
