import { createHash, hash, type Hash } from 'node:crypto';
import { compareBytewise } from '../model/bytewise.ts';
import { CHECKSUM_BYTES, writeSealed } from './checked-value.ts';

/** The chain value before the first event of a ledger. */
export const FIRST_CHAIN = '0'.repeat(64);

/** First hashed byte of a leaf and of a node (RFC 6962, 2.1), so no leaf can pass for a node. */
const LEAF = '\0';
const NODE = Buffer.of(1);

/** A neighbour's hash, hex, on the side of the path that it is on. */
export type MerkleStep = { readonly left: string } | { readonly right: string };

/** Merkle tree of a batch, one leaf per tenant (docs/reference/ledger-format.md#the-chain). */
export class BatchTree {
  readonly #leaves = new Map<string, Hash>();

  /** Adds the next event of the batch; `text` is from `encodeEvent`. */
  add(sequence: number, tenant: string, text: string): void {
    let leaf = this.#leaves.get(tenant);
    if (leaf === undefined) {
      leaf = createHash('sha256').update(LEAF);
      this.#leaves.set(tenant, leaf);
    }
    // No encoded event contains a line break, so the lines are unambiguous.
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

  /**
   * The neighbours' hashes that lead from a tenant's leaf to the root, from the bottom. Empty for
   * the only tenant. Throws a RangeError if the tenant has no leaf.
   */
  path(tenant: string): readonly MerkleStep[] {
    const leaves = this.leaves();
    let at = leaves.findIndex((leaf) => leaf.tenant === tenant);
    if (at === -1) throw new RangeError(`chain: no events in the batch: tenant: "${tenant}"`);
    const steps: MerkleStep[] = [];
    for (let level = leaves.map((leaf) => leaf.hash); level.length > 1; level = joinPairs(level)) {
      const neighbour = level[at % 2 === 0 ? at + 1 : at - 1]?.toString('hex');
      if (neighbour !== undefined) {
        steps.push(at % 2 === 0 ? { right: neighbour } : { left: neighbour });
      }
      at = Math.floor(at / 2);
    }
    return steps;
  }

  /** The root of the tree, hex. Throws a RangeError if the batch has no event. */
  root(): string {
    let level = this.leaves().map((leaf) => leaf.hash);
    while (level.length > 1) level = joinPairs(level);
    const [root] = level;
    if (root === undefined) throw new RangeError('chain: a batch without events has no root');
    return root.toString('hex');
  }
}

/** Chain value of a batch, hex: SHA-256(previous ‖ first sequence, 8 bytes, big-endian ‖ root). */
export function chainValue(previous: string, firstSequence: number, root: string): string {
  const first = Buffer.alloc(8);
  first.writeBigUInt64BE(BigInt(firstSequence));
  const bytes = Buffer.concat([Buffer.from(previous, 'hex'), first, Buffer.from(root, 'hex')]);
  return hash('sha256', bytes);
}

/** The next level of a tree. A last hash without a neighbour moves up unchanged. */
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
 * Begins the chain value of a batch from before the link
 * (docs/reference/ledger-format.md#the-link). Update it with the batch's event values in order,
 * then call `digest`.
 */
export function nextChain(previous: string): Hash {
  return createHash('sha256').update(Buffer.from(previous, 'hex'));
}

/**
 * Encodes consecutive events from their texts by `encodeEvent`. Returns their values, and all
 * values in one buffer for the chain.
 */
export function encodeStoredEvents(
  firstSequence: number,
  texts: readonly string[],
): { readonly values: readonly Buffer[]; readonly bytes: Buffer } {
  // Exactly as large as needed: memory outside the heap triggers V8's garbage collection, too.
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

/** Start value of an event's checksum, which detects an event under a wrong number. */
export function sequenceSeed(sequence: number): number {
  return sequence % 2 ** 32;
}
