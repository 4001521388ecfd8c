import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventPlaces, mergeRanges, type SequenceRange } from './event-places.ts';

/** Numbers of a tenant's events, some near to each other and some far apart, ascending. */
const anyNumbers = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 10_000 })), {
    maxLength: 60,
  })
  .map((steps) => {
    let sequence = 0;
    return steps.map((step) => (sequence += step));
  });

function placesOf(numbers: readonly number[]): EventPlaces {
  const places = new EventPlaces();
  for (const number of numbers) places.add(number);
  return places;
}

const holds =
  (number: number) =>
  ({ first, last }: SequenceRange): boolean =>
    first <= number && number <= last;

test('an event is in no range, or in two, after its places were stored in parts', () => {
  fc.assert(
    fc.property(anyNumbers, fc.nat(60), fc.nat(60), (numbers, one, other) => {
      const [from, to] = [Math.min(one, other), Math.max(one, other)];
      const parts = [numbers.slice(0, from), numbers.slice(from, to), numbers.slice(to)];
      let stored = new EventPlaces().encode();
      for (const part of parts) {
        const places = placesOf(part);
        places.addEncoded(stored);
        stored = places.encode();
      }
      const read = new EventPlaces();
      read.addEncoded(stored);
      expect(read.events).toBe(numbers.length);
      expect(read.ranges()).toStrictEqual(placesOf(numbers).ranges());
      expect(read.ranges()).toHaveLength(read.size);
      for (const number of numbers) expect(read.ranges().filter(holds(number))).toHaveLength(1);
    }),
  );
});

test('events of others that lie between are read for nothing, a whole window of them', () => {
  expect(placesOf([7, 8, 9, 2007, 2012, 5000]).ranges()).toStrictEqual([
    { first: 7, last: 9 },
    { first: 2007, last: 2012 },
    { first: 5000, last: 5000 },
  ]);
});

test('what is in the ranges of several hours is read twice, not at all, or out of order', () => {
  const anyRange = fc
    .tuple(fc.integer({ min: 1, max: 200 }), fc.nat(40))
    .map(([first, more]) => ({ first, last: first + more }));
  fc.assert(
    fc.property(fc.array(anyRange), fc.integer({ min: 1, max: 50 }), (ranges, most) => {
      const merged = mergeRanges(ranges, most);
      const numbers = merged.flatMap(({ first, last }) =>
        Array.from({ length: last - first + 1 }, (_, index) => first + index),
      );
      const wanted = Array.from({ length: 300 }, (_, index) => index).filter((number) =>
        ranges.some(holds(number)),
      );
      expect(numbers).toStrictEqual(wanted);
      for (const { first, last } of merged) expect(last - first).toBeLessThan(most);
    }),
  );
});

test('the places of an hour of windows take as much room as its sums', () => {
  const windows = Array.from({ length: 60 }, (_, window) => 1_000_000_000 + window * 10_000);
  const numbers = windows.flatMap((first) => [first, first + 1, first + 2000, first + 2001]);
  expect(placesOf(numbers).encode().length).toBeLessThan(1500);
});
