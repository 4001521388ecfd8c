import { assert, integer, property, tuple } from 'fast-check';
import { expect, test } from 'vitest';
import { parseDuration } from './durations.ts';

test.each([
  ['0', 0],
  ['0s', 0],
  ['1.5h', 5_400_000],
  ['1h30m', 5_400_000],
  ['1d12h', 129_600_000],
  ['500ms', 500],
  ['1000us', 1],
  ['0.5s', 500],
  ['0.1s', 100],
])('%s is read wrongly', (text, expected) => {
  expect(parseDuration(text)).toStrictEqual({ kind: 'value', value: expected });
});

test.each(['', '1', '1 s', 's', '1.s', '.5s', '1h-5m', '+1s', '1e3s', '1w', '1H', '10ns', '1.5us'])(
  '"%s" is taken for a duration',
  (text) => {
    expect(parseDuration(text).kind).toBe('problem');
  },
);

test('units that are added up lose or gain a millisecond', () => {
  const parts = tuple(
    integer({ min: 0, max: 400 }),
    integer({ min: 0, max: 100 }),
    integer({ min: 0, max: 100_000 }),
    integer({ min: 0, max: 999 }),
  );
  assert(
    property(parts, ([days, hours, seconds, millis]) => {
      const text = `${days}d${hours}h${seconds}.${String(millis).padStart(3, '0')}s`;
      const value = days * 86_400_000 + hours * 3_600_000 + seconds * 1_000 + millis;
      expect(parseDuration(text)).toStrictEqual({ kind: 'value', value });
    }),
  );
});
