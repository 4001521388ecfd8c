import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSequenceSet } from './sequence-set.ts';

test('a set of sequence numbers holds what a plain set holds', () => {
  const number = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 2 ** 40 }));
  const steps = fc.array(fc.tuple(fc.constantFrom('add', 'delete'), number), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (taken) => {
      const set = createSequenceSet();
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
