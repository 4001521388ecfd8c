import { createHash, hash, type Hash } from 'node:crypto';
import { compareBytewise } from '../model/bytewise.ts';
import { CHECKSUM_BYTES, writeSealed } from './checked-value.ts';

/** The chain before the first event of a ledger. */
export const FIRST_CHAIN = '0'.repeat(64);

/** The first byte of what a leaf is hashed from, and of a node (RFC 6962, section 2.1): no leaf passes for a node. */
const LEAF = '\0';
const NODE = Buffer.of(1);

/** The Merkle tree over a batch of events, one leaf per tenant (docs/reference/ledger-format.md#the-chain). */
export class BatchTree {
  readonly #leaves = new Map<string, Hash>();

  /** Adds the next event of the batch. `text` as `encodeEvent` gives it. */
  add(sequence: number, tenant: string, text: string): void {
    let leaf = this.#leaves.get(tenant);
    if (leaf === undefined) {
      leaf = createHash('sha256').update(LEAF);
      this.#leaves.set(tenant, leaf);
    }
    // No encoded event contains a line break, so lines cannot be read in two ways.
    leaf.update(`${sequence} ${text}\n`);
  }

  /** The leaves, sorted by tenant, bytewise. */
  leaves(): readonly { readonly tenant: string; readonly hash: Buffer }[] {
    const leaves = Array.from(this.#leaves, ([tenant, leaf]) => ({
      tenant,
      hash: leaf.copy().digest(),
    }));
    return leaves.toSorted((a, b) => compareBytewise(a.tenant, b.tenant));
  }

  /** The root of the tree, hex. Throws a RangeError where the batch has no event. */
  root(): string {
    let level = this.leaves().map((leaf) => leaf.hash);
    while (level.length > 1) level = joinPairs(level);
    const [root] = level;
    if (root === undefined) throw new RangeError('chain: a batch without events has no root');
    return root.toString('hex');
  }
}

/** The chain value of a batch, hex: SHA-256(previous ‖ first sequence, 8 bytes, big-endian ‖ root). */
export function chainValue(previous: string, firstSequence: number, root: string): string {
  const first = Buffer.alloc(8);
  first.writeBigUInt64BE(BigInt(firstSequence));
  const bytes = Buffer.concat([Buffer.from(previous, 'hex'), first, Buffer.from(root, 'hex')]);
  return hash('sha256', bytes);
}

/** The next level of a tree. A last hash without a neighbour goes up as it is. */
function joinPairs(level: readonly Buffer[]): Buffer[] {
  const above: Buffer[] = [];
  for (let index = 0; index < level.length; index += 2) {
    const pair = level.slice(index, index + 2);
    const [only] = pair;
    if (pair.length === 1 && only !== undefined) above.push(only);
    else above.push(hash('sha256', Buffer.concat([NODE, ...pair]), 'buffer'));
  }
  return above;
}

/**
 * Begins the chain value of a batch from before the link (docs/reference/ledger-format.md#the-link): update it with the batch's
 * event values in order, then digest.
 */
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
