import { BatchTree, chainValue, encodeStoredEvents, nextChain } from './event-chain.ts';

/** Calculates the chain value of one batch, event by event. */
export interface ChainedBatch {
  add(sequence: number, tenant: string, text: string): void;
  /** Returns the chain value and the root, hex. A batch from before the link has no root. */
  end(): { readonly chain: string; readonly root?: string };
}

/**
 * Begins the chain value of a batch (docs/reference/ledger-format.md#the-chain). Batches that begin
 * before sequence number `linkedFrom` have no tree (docs/reference/ledger-format.md#the-link).
 */
export function chainBatch(
  previous: string,
  firstSequence: number,
  linkedFrom: number,
): ChainedBatch {
  if (firstSequence < linkedFrom) {
    const hash = nextChain(previous);
    return {
      add: (sequence, _, text) => void hash.update(encodeStoredEvents(sequence, [text]).bytes),
      end: () => ({ chain: hash.digest('hex') }),
    };
  }
  const tree = new BatchTree();
  return {
    add: (sequence, tenant, text) => tree.add(sequence, tenant, text),
    end: () => {
      const root = tree.root();
      return { chain: chainValue(previous, firstSequence, root), root };
    },
  };
}
