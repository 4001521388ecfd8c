/**
 * Sums of events by key and period, beside the events in the same storage
 * (docs/reference/ledger-format.md#sums). `billing/usage/sums-store.ts` defines their keys and
 * texts. Only the leader writes them.
 */
export interface Rollups {
  /** Runs `work` on the sums as of one moment. */
  snapshot<T>(work: (view: RollupView) => Promise<T>): Promise<T>;
  /** Sets texts by key as one durable unit. Rejects if that is uncertain: read again. */
  put(texts: ReadonlyMap<string, string>): Promise<void>;
  /** Deletes the keys in `[from, to)`, not atomically. */
  drop(from: string, to: string): Promise<void>;
  close(): Promise<void>;
}

/** The stored sums as of one moment. */
export interface RollupView {
  get(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** The entries whose keys begin with `prefix`, in the order of the keys' bytes. */
  list(prefix: string): AsyncIterable<readonly [key: string, text: string]>;
  /** The first key that begins with `prefix`. */
  first(prefix: string): Promise<string | undefined>;
}

/** The stored sums are damaged, or belong to another ledger. */
export class DamagedRollups extends Error {}

/** Sorts after every key. */
export const AFTER_ALL_KEYS = '\u{10FFFF}'.repeat(8);
