import { expect, test } from 'vitest';
import { sameValue } from './same-value.ts';
import { Secret } from './secret.ts';

test('a record that was read again does not differ for what is undefined in the value it was made of', () => {
  const value = { plan: undefined, ids: { lago: 'x', stripe: undefined }, count: 1 };
  const read: unknown = JSON.parse(JSON.stringify(value));
  expect(sameValue(value, read)).toBe(true);
  expect(sameValue(read, value)).toBe(true);
});

test.each([
  [{ plan: undefined }, { project: 'x' }],
  [{ plan: 'x' }, {}],
  [{ labels: {} }, { labels: { constructor: 'x' } }],
  [{ plan: undefined }, { plan: null }],
  [{ token: new Secret('a') }, { token: new Secret('b') }],
  [
    ['a', 'b'],
    ['b', 'a'],
  ],
])('a change is not overlooked: %j and %j', (before, after) => {
  expect(sameValue(before, after)).toBe(false);
  expect(sameValue(after, before)).toBe(false);
});
