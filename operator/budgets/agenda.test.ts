import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Agenda } from './agenda.ts';

const steps = fc.array(
  fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    at: fc.option(fc.integer({ min: 0, max: 20 }), { freq: 4 }),
    now: fc.option(fc.integer({ min: 0, max: 20 })),
  }),
  { maxLength: 400 },
);

test('nobody is forgotten, or comes before the moment that holds, however often it was moved', () => {
  fc.assert(
    fc.property(steps, (changes) => {
      const agenda = new Agenda();
      const moments = new Map<string, number>();
      for (const { name, at, now } of changes) {
        if (at === null) {
          agenda.delete(name);
          moments.delete(name);
        } else {
          agenda.set(name, at);
          moments.set(name, at);
        }
        expect(agenda.momentOf(name)).toBe(moments.get(name));
        expect(agenda.nextAt).toBe(Math.min(...moments.values()));
        if (now === null) continue;
        const taken = agenda.take(now).map((each) => moments.get(each) ?? Number.NaN);
        const due = [...moments].filter(([, moment]) => moment <= now);
        expect(taken).toStrictEqual(due.map(([, moment]) => moment).toSorted((a, b) => a - b));
        for (const [each] of due) moments.delete(each);
      }
    }),
  );
});
