import type { BucketEvent } from '../destinations/destination.ts';
import { type Ledger, LedgerReadError } from '../ledger/ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import type { Entry } from './entry.ts';
import type { Pending } from './pending.ts';
import { isWithheld } from './withheld.ts';

/** The finest that a billing system sums by; windows may be shorter. */
const MINUTE_MS = 60_000;

export interface NeighboursOptions {
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly pending: Pick<Pending, 'position' | 'isDelivered'>;
}

/**
 * What the ledger has of the same tenants, metrics and minutes as some events: a billing system that
 * tells sums only can be asked after an event when all the others of its sum are known. Undefined where
 * stored events cannot be read.
 */
export function createNeighbours({ ledger, records, deadLetters, pending }: NeighboursOptions) {
  return async (
    entries: readonly Entry[],
    signal: AbortSignal,
  ): Promise<readonly BucketEvent[] | undefined> => {
    const keys = new Set(entries.map(({ event }) => keyOf(event)));
    const minutes = entries.map(({ event }) => minuteOf(event));
    const from = minutes.reduce((a, b) => Math.min(a, b));
    const to = minutes.reduce((a, b) => Math.max(a, b)) + MINUTE_MS;
    const parked = new Set<number>();
    for await (const { sequence } of records.parked()) parked.add(sequence);
    const withheld = await records.withheld();
    const isDelivered = (sequence: number): boolean => {
      if (pending.isDelivered(sequence)) return true;
      if (sequence > pending.position()) return false;
      if (deadLetters.has(sequence) || parked.has(sequence)) return false;
      return !isWithheld(withheld, sequence);
    };
    const found: BucketEvent[] = [];
    try {
      for await (const { sequence, event } of ledger.scan(from, to, signal)) {
        if (keys.has(keyOf(event))) found.push({ event, delivered: isDelivered(sequence) });
      }
    } catch (error) {
      if (error instanceof LedgerReadError) return undefined;
      throw error;
    }
    return found;
  };
}

function keyOf(event: UsageEvent): string {
  return `${event.tenant}\0${event.metric}\0${minuteOf(event)}`;
}

/** Of the window's start, milliseconds since the epoch. */
function minuteOf({ window_start }: UsageEvent): number {
  return Math.floor(Date.parse(window_start) / MINUTE_MS) * MINUTE_MS;
}
