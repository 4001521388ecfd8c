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
  add(sequence: number, tenant: string): void;
  remove(sequence: number, tenant: string): void;
}

export function createDeadLetterIndex(records: DeliveryRecords): DeadLetterIndex {
  const letters = createSequenceSet();
  const byTenant = new Map<string, number>();
  const count = (tenant: string, change: number): void => {
    const next = (byTenant.get(tenant) ?? 0) + change;
    if (next === 0) byTenant.delete(tenant);
    else byTenant.set(tenant, next);
  };
  const add: DeadLetterIndex['add'] = (sequence, tenant) => {
    if (letters.add(sequence)) count(tenant, 1);
  };

  return {
    load: async () => {
      for (const listing of [records.dead(), records.replay()]) {
        for await (const { sequence, event } of listing) add(sequence, event.tenant);
      }
    },
    get count() {
      return letters.size;
    },
    has: (sequence) => letters.has(sequence),
    countOf: (tenant) => byTenant.get(tenant) ?? 0,
    add,
    remove: (sequence, tenant) => {
      if (letters.delete(sequence)) count(tenant, -1);
    },
  };
}
