import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addUnsent,
  SequenceSet,
  isUnsent,
  type UnsentRanges,
  unsentAfter,
  unsentUpTo,
  withSequences,
} from './sequence-sets.ts';

test('a set of sequence numbers holds what a plain set holds', () => {
  const number = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 2 ** 40 }));
  const steps = fc.array(fc.tuple(fc.constantFrom('add', 'delete'), number), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (taken) => {
      const set = new SequenceSet();
      const plain = new Set<number>();
      for (const [what, sequence] of taken) {
        const changes = plain.has(sequence) === (what === 'delete');
        if (what === 'add') plain.add(sequence);
        else plain.delete(sequence);
        expect(what === 'add' ? set.add(sequence) : set.delete(sequence)).toBe(changes);
      }
      expect(set.size).toBe(plain.size);
      for (const [, sequence] of taken) expect(set.has(sequence)).toBe(plain.has(sequence));
    }),
  );
});

const NUMBERS = Array.from({ length: 40 }, (_, index) => index + 1);
const range = fc
  .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40 }))
  .map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
const ranges = fc.array(range, { maxLength: 12 });

function built(parts: UnsentRanges): UnsentRanges {
  return parts.reduce<UnsentRanges>((all, [from, to]) => addUnsent(all, from, to), []);
}

describe('numbers that were never sent', () => {
  test('none is lost or made up, in whatever order ranges come', () => {
    fc.assert(
      fc.property(ranges, (parts) => {
        const unsent = built(parts);
        for (const number of NUMBERS) {
          const expected = parts.some(([from, to]) => from <= number && number <= to);
          expect(isUnsent(unsent, number)).toBe(expected);
        }
        for (const [index, [from]] of unsent.entries()) {
          expect(from).toBeGreaterThan((unsent[index - 1]?.[1] ?? -1) + 1);
        }
      }),
    );
  });

  test('a cursor put back forgets exactly what lies above it', () => {
    fc.assert(
      fc.property(ranges, fc.integer({ min: 0, max: 41 }), (parts, last) => {
        const cut = unsentUpTo(built(parts), last);
        for (const number of NUMBERS) {
          const expected = number <= last && isUnsent(built(parts), number);
          expect(isUnsent(cut, number)).toBe(expected);
        }
      }),
    );
  });

  test('what the ledger has deleted is forgotten, and nothing that it still has', () => {
    expect(
      unsentAfter(
        [
          [1, 4],
          [6, 9],
        ],
        4,
      ),
    ).toEqual([[6, 9]]);
    expect(
      unsentAfter(
        [
          [1, 4],
          [6, 9],
        ],
        3,
      ),
    ).toEqual([
      [1, 4],
      [6, 9],
    ]);
  });

  test('single numbers join what is there, and each number is found again', () => {
    const singles = fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 30 });
    fc.assert(
      fc.property(ranges, singles, (parts, numbers) => {
        const joined = withSequences(built(parts), numbers);
        for (const number of NUMBERS) {
          const expected = isUnsent(built(parts), number) || numbers.includes(number);
          expect(isUnsent(joined, number)).toBe(expected);
        }
      }),
    );
  });

  test('an empty range adds nothing', () => {
    expect(addUnsent([[2, 3]], 6, 5)).toEqual([[2, 3]]);
  });
});
