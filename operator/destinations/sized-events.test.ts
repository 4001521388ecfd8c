import { expect, test } from 'vitest';
import { testWindow, TEST_WINDOW_START } from '../ledger/testing/events.ts';
import { SizedEvents } from './sized-events.ts';

test('a batch costs one encoding of each event, and none of an earlier call is sent in its place', () => {
  let encodings = 0;
  const sized = new SizedEvents(({ id }) => `${id} ${encodings++}`, 3);
  const events = testWindow(TEST_WINDOW_START, 4);
  const texts = events.map((event) => sized.size(event));
  expect(encodings).toBe(4);
  // Only the last one is retained.
  expect(sized.take(events).at(-1)).toBe(texts.at(-1));
  expect(encodings).toBe(7);
  expect(sized.take(events.slice(3))).toStrictEqual([`${events[3]?.id} 7`]);
});
