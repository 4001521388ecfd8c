import { expect, test } from 'vitest';
import { byteSize } from './sizes.ts';

test.each([
  ['0', 0],
  ['1Ki', 1024],
  ['512Mi', 536_870_912],
  ['2Gi', 2_147_483_648],
  ['1Ti', 1_099_511_627_776],
])('%s is read wrongly', (text, expected) => {
  expect(byteSize().parse(text)).toStrictEqual({ kind: 'value', value: expected });
});

test.each(['', '1', '1G', '1GiB', '1 Gi', '1.5Gi', '-1Gi', '1gi', '1000000Gi', '999999Ti', '٣Gi'])(
  '"%s" is taken for a size',
  (text) => {
    expect(byteSize().parse(text).kind).toBe('problem');
  },
);
