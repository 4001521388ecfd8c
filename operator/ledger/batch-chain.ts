import { BatchTree, chainValue, encodeStoredEvents, nextChain } from './event-chain.ts';

/** The chain value of one batch, calculated event by event. */
export interface ChainedBatch {
  add(sequence: number, tenant: string, text: string): void;
  /** At the end of the batch, hex. Before the link a batch has no root. */
  end(): { readonly chain: string; readonly root?: string };
}

/**
 * Begins the chain value of a batch (docs/reference/ledger-format.md#the-chain). `linkedFrom`: batches that begin before it are
 * chained without a tree (docs/reference/ledger-format.md#the-link).
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
