import { expect, test } from 'vitest';
import { slopePerHour } from './slope.ts';

test('a leak is told from noise, and from a level', () => {
  const hours = Array.from({ length: 120 }, (_, minute) => minute / 60);
  const saw = (at: number): number => (at * 60) % 5;
  const leaking = hours.map((at) => ({ hours: at, value: 100 + 3 * at + saw(at) }));
  const level = hours.map((at) => ({ hours: at, value: 100 + saw(at) }));
  expect(slopePerHour(leaking)).toBeCloseTo(3 + slopePerHour(level), 9);
  expect(Math.abs(slopePerHour(level))).toBeLessThan(0.2);
  expect(slopePerHour(level.slice(0, 1))).toBe(0);
  expect(slopePerHour([])).toBe(0);
});
