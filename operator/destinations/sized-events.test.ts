import { expect, test } from 'vitest';
import { testWindow, TEST_WINDOW_START } from '../ledger/testing/events.ts';
import { SizedEvents } from './sized-events.ts';

test('a batch costs one encoding of each event, and none of an earlier call is sent in its place', () => {
  let encodings = 0;
  const encode = ({ id }: { readonly id: string }) => `${id} ${encodings++}`;
  const sized = new SizedEvents(encode, (text) => text.length);
  const events = testWindow(TEST_WINDOW_START, 501);
  const sizes = events.map((event) => sized.limits.batchBytes?.sizeOf(event));
  expect(encodings).toBe(501);
  // Only the last one is retained.
  const last = sized.take(events).at(-1);
  expect(last).toBe(`${events[500]?.id} 500`);
  expect(sizes.at(-1)).toBe(last?.length);
  expect(encodings).toBe(1001);
  expect(sized.take(events.slice(500))).toStrictEqual([`${events[500]?.id} 1001`]);
});
