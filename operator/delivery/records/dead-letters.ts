import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import { SequenceSet } from './sequence-sets.ts';

/**
 * Index of dead letters in memory, with their number for each tenant. Letters that wait for a
 * replay count until they are settled. The events themselves are ledger records.
 */
export class DeadLetterIndex {
  readonly #records: DeliveryRecords;
  readonly #letters = new SequenceSet();
  readonly #byTenant = new Map<string, number>();

  constructor(records: DeliveryRecords) {
    this.#records = records;
  }

  async load(): Promise<void> {
    for (const listing of [this.#records.dead(), this.#records.replay()]) {
      for await (const letter of listing) this.add(letter);
    }
  }

  get count(): number {
    return this.#letters.size;
  }

  has(sequence: number): boolean {
    return this.#letters.has(sequence);
  }

  countOf(tenant: string): number {
    return this.#byTenant.get(tenant) ?? 0;
  }

  add({ sequence, event }: QueuedEvent): void {
    if (this.#letters.add(sequence)) this.#count(event.tenant, 1);
  }

  remove({ sequence, event }: QueuedEvent): void {
    if (this.#letters.delete(sequence)) this.#count(event.tenant, -1);
  }

  #count(tenant: string, change: number): void {
    const next = this.countOf(tenant) + change;
    if (next === 0) this.#byTenant.delete(tenant);
    else this.#byTenant.set(tenant, next);
  }
}
