import { expect, test } from 'vitest';
import { expandMarks } from './values.ts';

test('an answer of many large values is longer than a string can be, and ends the attack', () => {
  const texts = Array.from({ length: 500 }, () => '@@text:1500000@@');
  const expanded = expandMarks(JSON.stringify(texts));
  expect(expanded.startsWith(`["${'x'.repeat(1_500_000)}","x`)).toBe(true);
  expect(expanded.length).toBeGreaterThan(98_000_000);
  expect(expanded.length).toBeLessThanOrEqual(100_000_000);
  expect(expanded.endsWith('"@@text:1500000@@"]')).toBe(true);
});
