import type { BucketEvent, Destination } from '../../destinations/destination.ts';
import { type Ledger, LedgerReadError } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { least } from '../../model/extremes.ts';
import {
  type BlockReason,
  type DeliveryResult,
  type QueuedEvent,
  sequencesOf,
} from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { InFlight } from '../records/in-flight.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { isUnsent } from '../records/sequence-sets.ts';
import { asOf } from '../records/tenant-changes.ts';
import type { Pending } from './pending.ts';

/** The finest granularity of a billing system's sums. Windows may be shorter. */
const MINUTE_MS = 60_000;

export interface VerificationOptions {
  readonly destination: Pick<Destination, 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly changes: Pick<PlanChanges, 'sentAt' | 'reach'>;
  readonly pending: Pick<Pending, 'hasPassed' | 'isDelivered'>;
  readonly inFlight: Pick<InFlight, 'isForced'>;
}

export type Verify = (
  overdue: readonly QueuedEvent[],
  signal: AbortSignal,
) => Promise<{
  /** By sequence number. */
  readonly results: ReadonlyMap<number, DeliveryResult>;
  readonly blocked?: BlockReason;
}>;

const CANNOT_BE_QUERIED =
  'may have been delivered longer ago than the destination remembers, and it cannot be queried';

const BY_FORCE = 'replay it by force to send it anyway';

/**
 * Creates a query for events that the destination may have received and forgotten
 * (docs/explanation/delivery.md#memory-of-ids).
 */
export function createVerification(options: VerificationOptions): Verify {
  const { destination, inFlight } = options;
  return async (overdue, signal) => {
    const results = new Map<number, DeliveryResult>();
    const settleAsUncertain = (one: QueuedEvent, why: string): void => {
      if (inFlight.isForced(one)) return;
      results.set(one.sequence, { kind: 'dead', reason: `${why}: ${BY_FORCE}` });
    };
    if (overdue.length === 0) return { results };
    if (destination.verify === undefined) {
      for (const one of overdue) settleAsUncertain(one, CANNOT_BE_QUERIED);
      return { results };
    }
    const events = overdue.map(({ event }) => event);
    const sameBucket = await eventsOfSameBucket(options, events, signal);
    const outcome = await destination.verify(events, signal, sameBucket);
    if (outcome.kind === 'retry') return { results, blocked: outcome };
    for (const one of overdue) {
      const reason = outcome.uncertain?.get(one.event.id);
      if (outcome.known.has(one.event.id)) results.set(one.sequence, { kind: 'delivered' });
      else if (reason !== undefined) settleAsUncertain(one, reason);
    }
    return { results };
  };
}

/**
 * Returns the ledger's events of the same tenants, metrics and minutes as some events. A billing
 * system that reports only sums can be queried for an event if all other events of its sum are
 * known. Returns undefined if stored events cannot be read, may be deleted, or were sent as parts
 * of sums.
 */
async function eventsOfSameBucket(
  { ledger, records, deadLetters, changes, pending }: VerificationOptions,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<readonly BucketEvent[] | undefined> {
  const buckets = new Set(events.map(bucketOf));
  const minutes = events.map(minuteOf);
  const from = minutes.reduce((a, b) => Math.min(a, b));
  const to = minutes.reduce((a, b) => Math.max(a, b)) + MINUTE_MS;
  const tenants = new Set(events.map(({ tenant }) => tenant));
  // A change of plan may have moved earlier events into these minutes.
  const reach = least([...tenants].map((tenant) => changes.reach(from, tenant)));
  if (reach < ledger.stats().horizon) return undefined;
  const sumsUntil = await records.sumsUntil();
  const parked = await sequencesOf(records.parked());
  const unsent = await records.unsent();
  const isDelivered = (sequence: number): boolean => {
    if (pending.isDelivered(sequence)) return true;
    if (!pending.hasPassed(sequence)) return false;
    if (deadLetters.has(sequence) || parked.has(sequence)) return false;
    return !isUnsent(unsent, sequence);
  };
  const found: BucketEvent[] = [];
  try {
    for await (const queued of ledger.scan(reach, to, signal)) {
      if (!tenants.has(queued.event.tenant)) continue;
      const event = asOf(queued.event, changes.sentAt(queued));
      if (!buckets.has(bucketOf(event))) continue;
      // It was sent as a part of a sum. The sum counts in the minute in which it begins.
      if (queued.sequence <= sumsUntil) return undefined;
      found.push({ event, delivered: isDelivered(queued.sequence) });
    }
  } catch (error) {
    if (error instanceof LedgerReadError) return undefined;
    throw error;
  }
  return found;
}

function bucketOf(event: UsageEvent): string {
  return `${event.tenant}\0${event.metric}\0${minuteOf(event)}`;
}

/** Returns the minute of the window's start, milliseconds since the epoch. */
function minuteOf({ window_start }: UsageEvent): number {
  return Math.floor(Date.parse(window_start) / MINUTE_MS) * MINUTE_MS;
}
