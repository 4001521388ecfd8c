import { expect, test } from 'vitest';
import { rememberLast } from './remember-last.ts';

test('what is remembered is the same as what is computed, however many texts there are', () => {
  let computed = 0;
  const lengthOf = rememberLast((text) => {
    computed += 1;
    return text.length;
  });
  const texts = Array.from({ length: 1_000 }, (_, index) => 'x'.repeat(index));
  expect(texts.map(lengthOf)).toEqual(texts.map((text) => text.length));
  expect(texts.slice(-10).map(lengthOf)).toEqual(texts.slice(-10).map((text) => text.length));
  expect(computed).toBe(1_000);
});
