import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { newestFirst } from './all-streams.ts';

const streams = fc.array(fc.array(fc.nat(20), { maxLength: 8 }), { maxLength: 5 });

test('no window of any stream is left out of a page of all, or shown before a newer one', () => {
  fc.assert(
    fc.property(streams, (all) => {
      const newest = all.map((ends) => ends.toSorted((a, b) => b - a));
      const windows = newest.map((ends) => Iterator.from(ends).map((end) => ({ end })));
      const merged = [...newestFirst(windows)].map(({ end }) => end);
      expect(merged).toEqual(all.flat().toSorted((a, b) => b - a));
    }),
  );
});

test('a page of the newest does not read a day of every stream', () => {
  let read = 0;
  const day = () =>
    Iterator.from(Array.from({ length: 1_440 }, (_, index) => 1_440 - index)).map((end) => {
      read += 1;
      return { end };
    });
  expect([...newestFirst([day(), day(), day()]).take(6)]).toHaveLength(6);
  expect(read).toBeLessThanOrEqual(9);
});
