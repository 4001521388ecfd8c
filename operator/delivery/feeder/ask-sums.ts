import type { Destination } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
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
  readonly reconcile: Reconcile;
  readonly verify: Verification;
}

/**
 * Asks a destination whether it has added up what it took of tenants before changes of their plans: by its
 * sums of the day, or else event by event. Absent where it can be asked neither way.
 */
export function createAskSums(options: AskSumsOptions): AskSums | undefined {
  const { destination } = options;
  if (destination.totals !== undefined) {
    return (asked, signal) => withSums(options.reconcile, asked, signal);
  }
  if (destination.verify === undefined) return undefined;
  return async (asked, signal) => {
    const arrived = new Set<string>();
    for (const [tenant, before] of asked) {
      const recent = await recentOf(options, tenant, before, signal);
      const { results, blocked } = await options.verify(recent, signal);
      const has = blocked === undefined && recent.every(({ sequence }) => results.has(sequence));
      if (has) arrived.add(tenant);
    }
    return arrived;
  };
}

/** Tenants whose sums agree; the ledger is read once for all that change on one day. */
async function withSums(
  reconcile: Reconcile,
  asked: ReadonlyMap<string, number>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const days = Map.groupBy(asked, ([, before]) =>
    [Math.floor((before - RECENT_MS) / DAY_MS), Math.ceil((before + 1) / DAY_MS)].join(' '),
  );
  const arrived = new Set<string>();
  for (const [day, tenants] of days) {
    const [from = 0, to = 0] = day.split(' ').map((number) => Number(number) * DAY_MS);
    const wanted = new Set(tenants.map(([tenant]) => tenant));
    const [only] = wanted;
    const whose =
      wanted.size === 1
        ? omitUndefined({ tenant: only })
        : { selects: ({ tenant }: UsageEvent) => wanted.has(tenant), questions: Infinity };
    const outcome = await reconcile({ from, to, ...whose }, signal);
    if (outcome.kind === 'failed') continue;
    const lacking = outcome.rows.filter(
      ({ delivered, difference = '0' }) =>
        difference.startsWith('-') && isDrift(delivered, difference),
    );
    const missing = new Set(lacking.map(({ tenant }) => tenant));
    for (const tenant of wanted) if (!missing.has(tenant)) arrived.add(tenant);
  }
  return arrived;
}

/** The last events that were delivered of a tenant, as they were sent. */
async function recentOf(
  { ledger, records, deadLetters, changes, wants, hasPassed }: AskSumsOptions,
  tenant: string,
  before: number,
  signal: AbortSignal,
): Promise<readonly QueuedEvent[]> {
  const parked = await sequencesOf(records.parkedOf(tenant));
  const unsent = await records.unsent();
  const recent: QueuedEvent[] = [];
  for await (const queued of ledger.scan(before - RECENT_MS, before, signal)) {
    const { sequence, event } = queued;
    if (event.tenant !== tenant || !wants(event) || !hasPassed(sequence)) continue;
    if (parked.has(sequence) || deadLetters.has(sequence) || isUnsent(unsent, sequence)) continue;
    recent.push({ ...queued, event: asOf(event, changes.sentAt(queued)) });
  }
  return recent.slice(-MAX_ASKED);
}
