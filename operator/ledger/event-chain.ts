import { createHash, type Hash } from 'node:crypto';
import { CHECKSUM_BYTES, writeSealed } from './checked-value.ts';

/** The chain before the first event of a ledger. */
export const FIRST_CHAIN = '0'.repeat(64);

/** Begins the chain value of a batch: update it with the batch's event values in order, then digest. */
export function nextChain(previous: string): Hash {
  return createHash('sha256').update(Buffer.from(previous, 'hex'));
}

/**
 * The values of events that follow each other, from their texts as `encodeEvent` gives them; and all
 * of them in one piece, which is what the chain is made of.
 */
export function encodeStoredEvents(
  firstSequence: number,
  texts: readonly string[],
): { readonly values: readonly Buffer[]; readonly bytes: Buffer } {
  // No larger than need be: memory outside of the heap makes V8 collect all the same.
  const size = texts.reduce((sum, text) => sum + CHECKSUM_BYTES + Buffer.byteLength(text), 0);
  const bytes = Buffer.allocUnsafeSlow(size);
  let end = 0;
  const values = texts.map((text, index) => {
    const start = end;
    end = writeSealed(bytes, start, text, sequenceSeed(firstSequence + index));
    return bytes.subarray(start, end);
  });
  return { values, bytes };
}

/** What the checksum of an event starts from, so that one under a wrong number is noticed. */
export function sequenceSeed(sequence: number): number {
  return sequence % 2 ** 32;
}
