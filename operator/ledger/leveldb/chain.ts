import { createHash, type Hash } from 'node:crypto';

/** The chain before the first event of a ledger. */
export const FIRST_CHAIN = '0'.repeat(64);

/** Begins the chain value of a batch: update it with the batch's event values in order, then digest. */
export function nextChain(previous: string): Hash {
  return createHash('sha256').update(Buffer.from(previous, 'hex'));
}
