import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { behindPart, behindText, knownPart } from './known-parts.ts';

const ascii = fc.string({ unit: 'binary-ascii', maxLength: 50 });
const known = fc.string({ unit: 'grapheme', maxLength: 600 });

test('a checksum that is put together of known parts and of others is that of the whole text', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 32 - 1 }),
      fc.array(fc.tuple(known, ascii), { maxLength: 8 }),
      (seed, pairs) => {
        const together = pairs.reduce(
          (checksum, [part, text]) => behindText(behindPart(checksum, knownPart(part)), text),
          seed,
        );
        expect(together | 0).toBe(crc32(pairs.flat().join(''), seed) | 0);
      },
    ),
  );
});
