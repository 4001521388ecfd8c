import { expect, test } from 'vitest';
import { contrast } from './contrast.ts';

test('a colour that cannot be read is taken for one that can', () => {
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21, 5);
  expect(contrast('#ffffff', '#ffffff')).toBe(1);
  // https://www.w3.org/WAI/WCAG22/Techniques/general/G18: the grey that just passes on white.
  expect(contrast('#767676', '#ffffff')).toBeCloseTo(4.54, 2);
  expect(contrast('#ffee00', '#ffffff')).toBeLessThan(1.3);
});
