import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import { createSequenceSet } from './sequence-sets.ts';

/**
 * Which events are dead letters, and how many each tenant has, in memory. Letters that wait to be sent
 * once more count until they are settled. The events themselves are ledger records.
 */
export interface DeadLetterIndex {
  load(): Promise<void>;
  readonly count: number;
  has(sequence: number): boolean;
  countOf(tenant: string): number;
  add(letter: QueuedEvent): void;
  remove(letter: QueuedEvent): void;
}

export function createDeadLetterIndex(records: DeliveryRecords): DeadLetterIndex {
  const letters = createSequenceSet();
  const byTenant = new Map<string, number>();
  const count = (tenant: string, change: number): void => {
    const next = (byTenant.get(tenant) ?? 0) + change;
    if (next === 0) byTenant.delete(tenant);
    else byTenant.set(tenant, next);
  };
  const add: DeadLetterIndex['add'] = (letter) => {
    if (letters.add(letter.sequence)) count(letter.event.tenant, 1);
  };

  return {
    load: async () => {
      for (const listing of [records.dead(), records.replay()]) {
        for await (const letter of listing) add(letter);
      }
    },
    get count() {
      return letters.size;
    },
    has: (sequence) => letters.has(sequence),
    countOf: (tenant) => byTenant.get(tenant) ?? 0,
    add,
    remove: (letter) => {
      if (letters.delete(letter.sequence)) count(letter.event.tenant, -1);
    },
  };
}
