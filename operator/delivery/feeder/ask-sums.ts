import type { Destination } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { AggregatedRanges } from '../aggregation/ranges.ts';
import { sentEvents } from '../aggregation/sent-events.ts';
import { type QueuedEvent, sequencesOf } from '../delivery-result.ts';
import type { AskSums } from '../lanes/arrival-check.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import { isDrift, type Reconcile } from '../operations/reconcile.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { isUnsent } from '../records/sequence-sets.ts';
import { asOf } from '../records/tenant-changes.ts';
import type { Verification } from './verification.ts';

const DAY_MS = 86_400_000;
/** What was sent last is what a billing system may not have added up yet. */
const RECENT_MS = 10 * 60_000;
/** Events that a billing system without sums by day is asked after. */
const MAX_ASKED = 100;

export interface AskSumsOptions {
  readonly destination: Pick<Destination, 'totals' | 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly changes: PlanChanges;
  readonly wants: (event: UsageEvent) => boolean;
  readonly hasPassed: (sequence: number) => boolean;
  readonly ranges: AggregatedRanges;
  readonly reconcile: Reconcile;
  readonly verify: Verification;
}

/**
 * Asks a destination whether it has added up what it took of a tenant before a change of its plan: by its
 * sums of the day, or else event by event. Absent where it can be asked neither way.
 */
export function createAskSums(options: AskSumsOptions): AskSums | undefined {
  const { destination } = options;
  if (destination.totals !== undefined) {
    return (tenant, before, signal) => hasSums(options.reconcile, tenant, before, signal);
  }
  if (destination.verify === undefined) return undefined;
  return async (tenant, before, signal) => {
    const recent = await recentOf(options, tenant, before, signal);
    const { results, blocked } = await options.verify(recent, signal);
    return blocked === undefined && recent.every(({ sequence }) => results.has(sequence));
  };
}

async function hasSums(
  reconcile: Reconcile,
  tenant: string,
  before: number,
  signal: AbortSignal,
): Promise<boolean> {
  const from = Math.floor((before - RECENT_MS) / DAY_MS) * DAY_MS;
  const to = Math.ceil((before + 1) / DAY_MS) * DAY_MS;
  const outcome = await reconcile({ from, to, tenant }, signal);
  if (outcome.kind === 'failed') return false;
  return outcome.rows.every(
    ({ delivered, difference = '0' }) =>
      !difference.startsWith('-') || !isDrift(delivered, difference),
  );
}

/** The last events that were delivered of a tenant, as they were sent. */
async function recentOf(
  { ledger, records, deadLetters, changes, wants, hasPassed, ranges }: AskSumsOptions,
  tenant: string,
  before: number,
  signal: AbortSignal,
): Promise<readonly QueuedEvent[]> {
  const parked = await sequencesOf(records.parkedOf(tenant));
  const unsent = await records.unsent();
  const recent: QueuedEvent[] = [];
  const isMeant = (event: UsageEvent): boolean => event.tenant === tenant && wants(event);
  const query = { from: before - RECENT_MS, to: before, isMeant };
  for await (const queued of sentEvents(ledger, ranges, query, signal)) {
    const { sequence, event } = queued;
    if (Date.parse(event.window_start) >= before || !hasPassed(sequence)) continue;
    if (parked.has(sequence) || deadLetters.has(sequence) || isUnsent(unsent, sequence)) continue;
    recent.push({ ...queued, event: asOf(event, changes.sentAt(queued)) });
  }
  return recent.slice(-MAX_ASKED);
}
