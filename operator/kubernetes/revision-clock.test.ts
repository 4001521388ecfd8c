import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRevisionClock } from './revision-clock.ts';

/** Versions of one etcd with the moments at which they were given out. */
const history = fc
  .array(
    fc.record({ steps: fc.integer({ min: 1, max: 40 }), ms: fc.integer({ min: 0, max: 30_000 }) }),
    {
      minLength: 1,
      maxLength: 200,
    },
  )
  .map((steps) => {
    let [version, at] = [2n ** 40n, 1_700_000_000_000];
    return steps.map((step) => {
      version += BigInt(step.steps);
      at += step.ms;
      return { version, at };
    });
  });

/** Of some versions somebody says when, in any order: never too late from below nor too early from above. */
const said = history.chain((all) =>
  fc.tuple(
    fc.constant(all),
    fc.array(
      fc.record({
        index: fc.nat(all.length - 1),
        early: fc.integer({ min: 0, max: 5_000 }),
        late: fc.integer({ min: 0, max: 5_000 }),
        side: fc.constantFrom('from', 'until', 'both'),
      }),
      { maxLength: 100 },
    ),
  ),
);

describe('a clock of versions', () => {
  test('never says a moment at which a version had not been given out, or had been long ago', () => {
    fc.assert(
      fc.property(said, ([all, facts]) => {
        const clock = createRevisionClock();
        for (const { index, early, late, side } of facts) {
          const { version, at } = all[index] ?? { version: 0n, at: 0 };
          clock.observe(String(version), {
            ...(side === 'until' ? {} : { from: at - early }),
            ...(side === 'from' ? {} : { until: at + late }),
          });
        }
        for (const { version, at } of all) {
          const { from, until } = clock.bracket(String(version));
          expect(from).toBeLessThanOrEqual(at);
          expect(until).toBeGreaterThanOrEqual(at);
          expect(clock.agrees(String(version), at)).toBe(true);
        }
      }),
    );
  });

  test('says as much as the facts do, whatever their order', () => {
    fc.assert(
      fc.property(said, ([all, facts]) => {
        const clock = createRevisionClock();
        const known = facts.flatMap(({ index, early, late }) => {
          const { version, at } = all[index] ?? { version: 0n, at: 0 };
          clock.observe(String(version), { from: at - early, until: at + late });
          return [{ version, from: at - early, until: at + late }];
        });
        for (const { version } of all) {
          const from = known.filter((fact) => fact.version <= version).map((fact) => fact.from);
          const until = known.filter((fact) => fact.version >= version).map((fact) => fact.until);
          const found = clock.bracket(String(version));
          // Bounds that are closer than a twentieth of a second say the same.
          expect(found.from).toBeGreaterThanOrEqual(Math.max(...from) - 50);
          expect(found.until).toBeLessThanOrEqual(Math.min(...until) + 50);
        }
      }),
    );
  });

  test('knows a version that another etcd has given out, as soon as it is ahead of its own', () => {
    const clock = createRevisionClock();
    clock.observe('1000', { from: 60_000 });
    expect(clock.agrees('999', 10_000)).toBe(true);
    expect(clock.agrees('1001', 10_000)).toBe(false);
  });

  test('passes over what says that a version was given out before its date', () => {
    const clock = createRevisionClock();
    clock.observe('1000', { from: 60_000 });
    clock.observe('1001', { until: 20_000 });
    clock.observe('1002', { until: 61_000 });
    expect(clock.bracket('999')).toEqual({ from: -Infinity, until: 20_000 });
    expect(clock.bracket('1000')).toEqual({ from: 60_000, until: 61_000 });
    expect(clock.bracket('1001')).toEqual({ from: 60_000, until: 61_000 });
  });

  test('says nothing of a version that is no number', () => {
    const clock = createRevisionClock();
    clock.observe('abc', { from: 1 });
    expect(clock.bracket('abc')).toEqual({ from: -Infinity, until: Infinity });
  });
});
