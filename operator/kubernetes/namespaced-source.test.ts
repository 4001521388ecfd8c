import { expect, test } from 'vitest';
import { knownAtIn } from './namespaced-source.ts';

test('a namespace that was never listed is not known of, however fresh the others are', () => {
  const resourceVersion = JSON.stringify({ a: ['100', 5_000], b: [null, 2_000], c: '90' });
  const point = { resourceVersion, knownAt: 2_000 };
  expect(knownAtIn(point, 'a')).toBe(5_000);
  expect(knownAtIn(point, 'b')).toBe(2_000);
  // Written by an older release, which had one freshness for all.
  expect(knownAtIn(point, 'c')).toBe(2_000);
  expect(knownAtIn(point, 'never-listed')).toBe(0);
  expect(knownAtIn({ knownAt: 2_000 }, 'a')).toBe(2_000);
  expect(knownAtIn(undefined, 'a')).toBe(0);
});
