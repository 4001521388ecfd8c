/**
 * Sums of events by key and period, beside the events in the same storage (docs/reference/ledger-format.md#sums). They are texts under
 * keys; what they mean, and how far they go, `billing/usage/sums-store.ts` knows. One process writes them: the one that leads.
 */
export interface Rollups {
  /** Runs `work`, for which everything that it reads is of one moment. */
  snapshot<T>(work: (view: RollupView) => Promise<T>): Promise<T>;
  /** Sets texts by key as one durable unit. Rejects where that is not certain: read again what is stored. */
  put(texts: ReadonlyMap<string, string>): Promise<void>;
  /** Deletes the keys in `[from, to)`; not as one unit. */
  drop(from: string, to: string): Promise<void>;
  close(): Promise<void>;
}

/** What is stored at one moment. */
export interface RollupView {
  get(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Everything whose key begins with `prefix`, in the order of the keys' bytes. */
  list(prefix: string): AsyncIterable<readonly [key: string, text: string]>;
  /** The first key that begins with `prefix`. */
  first(prefix: string): Promise<string | undefined>;
}

/** Stored sums are not as they were written, or are those of another ledger. */
export class DamagedRollups extends Error {}

/** Behind every key. */
export const AFTER_ALL_KEYS = '\u{10FFFF}'.repeat(8);
