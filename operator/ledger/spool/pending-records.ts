import { compareBytewise } from '../../model/bytewise.ts';
import type { RecordChange } from '../ledger.ts';

/** What a record has become by a batch that waits. */
interface Pending {
  readonly batch: number;
  /** Undefined where it is deleted. */
  readonly value: string | undefined;
}

/** The records of batches that wait, laid over those of the ledger that will have them. */
export class PendingRecords {
  readonly #pending = new Map<string, Pending>();

  add(batch: number, records: readonly RecordChange[] = []): void {
    for (const { key, value } of records) this.#pending.set(key, { batch, value });
  }

  /** The ledger has a batch. */
  drop(batch: number, records: readonly RecordChange[]): void {
    for (const { key } of records) {
      if (this.#pending.get(key)?.batch === batch) this.#pending.delete(key);
    }
  }

  find(key: string): Pending | undefined {
    return this.#pending.get(key);
  }

  /** The records of the ledger whose keys begin with `prefix`, in key order, as they will be. */
  async *over(
    stored: AsyncIterable<readonly [key: string, value: string]>,
    prefix: string,
  ): AsyncGenerator<readonly [key: string, value: string]> {
    const pending = [...this.#pending]
      .filter(([key]) => key.startsWith(prefix))
      .toSorted(([a], [b]) => compareBytewise(a, b));
    let next = 0;
    for await (const [key, value] of stored) {
      for (; next < pending.length; next++) {
        const [at = '', own] = pending[next] ?? [];
        if (compareBytewise(at, key) >= 0) break;
        if (own?.value !== undefined) yield [at, own.value];
      }
      if (pending[next]?.[0] !== key) yield [key, value];
    }
    for (const [at, { value }] of pending.slice(next)) {
      if (value !== undefined) yield [at, value];
    }
  }
}
