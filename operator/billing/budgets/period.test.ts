import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { levelsOf } from './levels.ts';
import { dayOf, monthOf, nextDay, periodAt } from './period.ts';

const at = (text: string): number => Date.parse(text);
const NOW = at('2026-11-21T09:05:00Z');

test('a month ends with the last day of it, also at the end of a year', () => {
  expect(periodAt({ kind: 'month' }, at('2026-12-31T23:59:59.999Z'), 0)).toStrictEqual({
    from: at('2026-12-01T00:00:00Z'),
    to: at('2027-01-01T00:00:00Z'),
  });
});

test('rolling days are the day that it is and those before it', () => {
  expect(periodAt({ kind: 'rolling', days: 7 }, NOW, 0)).toStrictEqual({
    from: at('2026-11-15T00:00:00Z'),
    to: at('2026-11-22T00:00:00Z'),
  });
});

test('a prepaid balance lasts since its first credit', () => {
  const period = periodAt({ kind: 'prepaid' }, NOW, 5);
  expect(period).toStrictEqual({ from: 5, to: Number.POSITIVE_INFINITY });
});

test('every moment lies in its period, and the next period begins where it ends', () => {
  const periods = fc.constantFrom(
    { kind: 'month' } as const,
    { kind: 'rolling', days: 1 } as const,
    { kind: 'rolling', days: 30 } as const,
  );
  const moments = fc.integer({ min: at('2026-01-01'), max: at('2030-01-01') });
  fc.assert(
    fc.property(periods, moments, (kind, now) => {
      const { from, to } = periodAt(kind, now, 0);
      expect(from <= now && now < to).toBe(true);
      expect(periodAt(kind, to - 1, 0)).toStrictEqual({ from, to });
      const next = periodAt(kind, to, 0);
      expect(kind.kind === 'month' ? next.from : next.from - from).toBe(
        kind.kind === 'month' ? to : 86_400_000,
      );
      expect(nextDay(now) > now && nextDay(now) - now <= 86_400_000).toBe(true);
      expect(dayOf(monthOf(now))).toBe(`${dayOf(now).slice(0, 7)}-01`);
    }),
  );
});

test('thresholds are parts of the amount, of a prepaid balance of what is left of it', () => {
  const budget = { amount: 100n, thresholds: [50, 80, 100] };
  const month = levelsOf({ ...budget, period: { kind: 'month' } }, 0n);
  expect(month.limit).toBe(100n);
  expect(month.thresholds.map(({ level }) => level)).toStrictEqual([50n, 80n, 100n]);
  const prepaid = levelsOf({ ...budget, period: { kind: 'prepaid' } }, 350n);
  expect(prepaid.limit).toBe(350n);
  expect(prepaid.thresholds.map(({ level }) => level)).toStrictEqual([300n, 330n, 350n]);
});
