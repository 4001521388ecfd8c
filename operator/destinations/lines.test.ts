import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { dealLines } from './lines.ts';

test('no event overtakes another one of its tenant, and none is left out', () => {
  const items = fc.array(fc.record({ tenant: fc.constantFrom('a', 'b', 'c', 'd'), at: fc.nat() }));
  fc.assert(
    fc.property(items, fc.integer({ min: 0, max: 6 }), (given, count) => {
      const lines = dealLines(given, ({ tenant }) => tenant, count);
      expect(lines.length).toBeLessThanOrEqual(Math.max(1, count));
      for (const tenant of ['a', 'b', 'c', 'd']) {
        const own = lines.filter((line) => line.some((item) => item.tenant === tenant));
        expect(own.length).toBeLessThanOrEqual(1);
        expect(own.flat().filter((item) => item.tenant === tenant)).toEqual(
          given.filter((item) => item.tenant === tenant),
        );
      }
    }),
  );
});
