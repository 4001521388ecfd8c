import { BatchTree, chainValue, encodeStoredEvents, nextChain } from '../event-chain.ts';

/** The chain value of one batch, calculated event by event (docs/ledger-format.md#the-chain). */
export interface ChainedBatch {
  add(sequence: number, tenant: string, text: string): void;
  /** The value at the end of the batch, hex. */
  value(): string;
}

/** Begins the chain value of a batch. `isBeforeLink`: by the rule from before the link. */
export function chainBatch(
  previous: string,
  firstSequence: number,
  isBeforeLink: boolean,
): ChainedBatch {
  if (isBeforeLink) {
    const hash = nextChain(previous);
    return {
      add: (sequence, _, text) => void hash.update(encodeStoredEvents(sequence, [text]).bytes),
      value: () => hash.digest('hex'),
    };
  }
  const tree = new BatchTree();
  return {
    add: (sequence, tenant, text) => tree.add(sequence, tenant, text),
    value: () => chainValue(previous, firstSequence, tree.root()),
  };
}
