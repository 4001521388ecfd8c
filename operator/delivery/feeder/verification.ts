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
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import type { AggregatedRanges } from '../aggregation/ranges.ts';
import { sentEvents } from '../aggregation/sent-events.ts';
import { isUnsent } from '../records/sequence-sets.ts';
import { asOf } from '../records/tenant-changes.ts';
import type { Pending } from './pending.ts';

/** The finest that a billing system sums by; windows may be shorter. */
const MINUTE_MS = 60_000;

export interface VerificationOptions {
  readonly destination: Pick<Destination, 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly changes: Pick<PlanChanges, 'sentAt' | 'reach'>;
  readonly pending: Pick<Pending, 'hasPassed' | 'isDelivered'>;
  readonly ranges: AggregatedRanges;
}

/** What the destination said of events; those without a result it does not have. */
export interface VerificationReport {
  /** By sequence number. */
  readonly results: ReadonlyMap<number, DeliveryResult>;
  readonly blocked?: BlockReason;
}

export type Verification = (
  overdue: readonly QueuedEvent[],
  signal: AbortSignal,
) => Promise<VerificationReport>;

const CANNOT_BE_ASKED =
  'may have been delivered longer ago than the destination remembers, and it cannot be asked';

/**
 * Asks a destination after events that it may have had and forgotten (docs/delivery.md#memory-of-ids).
 */
export function createVerification(options: VerificationOptions): Verification {
  const { destination } = options;
  return async (overdue, signal) => {
    const results = new Map<number, DeliveryResult>();
    if (overdue.length === 0) return { results };
    if (destination.verify === undefined) {
      for (const { sequence } of overdue) {
        results.set(sequence, { kind: 'dead', reason: CANNOT_BE_ASKED, uncertain: true });
      }
      return { results };
    }
    const events = overdue.map(({ event }) => event);
    const sameBucket = await eventsOfSameBucket(options, events, signal);
    const outcome = await destination.verify(events, signal, sameBucket);
    if (outcome.kind === 'retry') return { results, blocked: outcome };
    for (const { sequence, event } of overdue) {
      const reason = outcome.uncertain?.get(event.id);
      if (outcome.known.has(event.id)) results.set(sequence, { kind: 'delivered' });
      else if (reason !== undefined) {
        results.set(sequence, { kind: 'dead', reason, uncertain: true });
      }
    }
    return { results };
  };
}

/**
 * What the ledger has of the same tenants, metrics and minutes as some events: a billing system that
 * reports sums only can be asked after an event when all the others of its sum are known. Undefined
 * where stored events cannot be read.
 */
async function eventsOfSameBucket(
  { ledger, records, deadLetters, changes, pending, ranges }: VerificationOptions,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<readonly BucketEvent[] | undefined> {
  const buckets = new Set(events.map(bucketOf));
  const minutes = events.map(minuteOf);
  const from = minutes.reduce((a, b) => Math.min(a, b));
  const to = minutes.reduce((a, b) => Math.max(a, b)) + MINUTE_MS;
  const tenants = new Set(events.map(({ tenant }) => tenant));
  // What a change of plan has moved into these minutes lies earlier in the ledger's order of time.
  const reach = least([...tenants].map((tenant) => changes.reach(from, tenant)));
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
    const isMeant = ({ tenant }: UsageEvent): boolean => tenants.has(tenant);
    const query = { from: reach, to, isMeant };
    for await (const queued of sentEvents(ledger, ranges, query, signal)) {
      const event = asOf(queued.event, changes.sentAt(queued));
      const delivered = isDelivered(queued.sequence);
      if (buckets.has(bucketOf(event))) found.push({ event, delivered });
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

/** Of the window's start, milliseconds since the epoch. */
function minuteOf({ window_start }: UsageEvent): number {
  return Math.floor(Date.parse(window_start) / MINUTE_MS) * MINUTE_MS;
}
