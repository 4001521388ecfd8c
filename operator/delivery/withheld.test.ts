import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isWithheld, withheldAfter, withheldUpTo, type Withheld, withhold } from './withheld.ts';

const NUMBERS = Array.from({ length: 40 }, (_, index) => index + 1);
const range = fc
  .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40 }))
  .map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
const ranges = fc.array(range, { maxLength: 12 });

function built(parts: Withheld): Withheld {
  return parts.reduce<Withheld>((all, [from, to]) => withhold(all, from, to), []);
}

describe('withheld numbers', () => {
  test('none is lost or made up, in whatever order ranges come', () => {
    fc.assert(
      fc.property(ranges, (parts) => {
        const withheld = built(parts);
        for (const number of NUMBERS) {
          const expected = parts.some(([from, to]) => from <= number && number <= to);
          expect(isWithheld(withheld, number)).toBe(expected);
        }
        for (const [index, [from]] of withheld.entries()) {
          expect(from).toBeGreaterThan((withheld[index - 1]?.[1] ?? -1) + 1);
        }
      }),
    );
  });

  test('a cursor put back forgets exactly what lies above it', () => {
    fc.assert(
      fc.property(ranges, fc.integer({ min: 0, max: 41 }), (parts, last) => {
        const cut = withheldUpTo(built(parts), last);
        for (const number of NUMBERS) {
          const expected = number <= last && isWithheld(built(parts), number);
          expect(isWithheld(cut, number)).toBe(expected);
        }
      }),
    );
  });

  test('what the ledger has deleted is forgotten, and nothing that it still has', () => {
    expect(
      withheldAfter(
        [
          [1, 4],
          [6, 9],
        ],
        4,
      ),
    ).toEqual([[6, 9]]);
    expect(
      withheldAfter(
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

  test('an empty range adds nothing', () => {
    expect(withhold([[2, 3]], 6, 5)).toEqual([[2, 3]]);
  });
});
