import pLimit from 'p-limit';
import type { Destination } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { type Decimal, signedFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { Acknowledgements } from '../records/acknowledgements.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { sequencesOf } from '../delivery-result.ts';
import { isUnsent } from '../records/sequence-sets.ts';

const DAY_MS = 86_400_000;
const CONCURRENT_QUESTIONS = 4;
/** Most rows that are queried at the destination in one reconciliation. */
const MAX_QUESTIONS = 500;
const FORGOTTEN =
  'the events and their acknowledgements are deleted, and this destination does not report its sums';
/** Most comparisons of a row while delivery continues. */
const PASSES = 3;

/**
 * One tenant's sum of one metric, in plain decimal text. `ledger` = `delivered` + `pending` +
 * `deadLetters` + `parked` + `withheld`. The destination should have `delivered`. A destination
 * that reports sums is compared by `reported`, another one by `acknowledged`.
 */
export interface ReconcileRow {
  readonly tenant: string;
  readonly metric: string;
  readonly ledger: string;
  /** Passed by the cursor, and not dead, parked or withheld. */
  readonly delivered: string;
  /** Not passed by the cursor yet. */
  readonly pending: string;
  readonly deadLetters: string;
  readonly parked: string;
  /** Passed without being sent: before the start, skipped, or discarded. */
  readonly withheld: string;
  readonly reported?: string;
  readonly acknowledged?: string;
  /** `reported` or `acknowledged` − `delivered`; may be negative. */
  readonly difference?: string;
  /** Why neither `reported` nor `acknowledged` is known. */
  readonly note?: string;
}

export type ReconcileOutcome =
  /** By tenant, then metric. */
  | { readonly kind: 'reconciled'; readonly rows: readonly ReconcileRow[] }
  | { readonly kind: 'failed'; readonly reason: string };

interface ReconcileOptions {
  readonly destination: Pick<Destination, 'sums'>;
  readonly describe: (tenant: string) => Promise<Tenant>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly acknowledgements: Pick<Acknowledgements, 'has'>;
  /** Usage that a change of plan moved counts on the day as of which it was sent. */
  readonly changes: Pick<PlanChanges, 'sentAt' | 'reach'>;
  readonly wants: (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean;
  /** Returns, as of now, a predicate: is the outcome of an event on record? */
  readonly passed: () => (sequence: number) => boolean;
}

export type Reconcile = (query: ReconcileQuery, signal: AbortSignal) => Promise<ReconcileOutcome>;

/** Compares the ledger's sums with those the destination acknowledged, or those it reports. */
export function createReconcile(options: ReconcileOptions): Reconcile {
  return async (query, signal) => {
    if (query.from % DAY_MS !== 0 || query.to % DAY_MS !== 0 || query.from >= query.to) {
      const given = `${new Date(query.from).toISOString()} to ${new Date(query.to).toISOString()}`;
      return { kind: 'failed', reason: `not complete UTC days: from, to: "${given}"` };
    }
    const rows = new Map<string, ReconcileRow>();
    const sums = await sumLedger(options, query, signal);
    const first = Math.floor((query.beginAt ?? 0) * sums.length);
    let open = [...sums.slice(first), ...sums.slice(0, first)];
    let questions = 0;
    for (let pass = 1; pass <= PASSES && open.length > 0; pass += 1) {
      await pLimit(CONCURRENT_QUESTIONS).map(open, async (sum) => {
        questions += 1;
        rows.set(keyOf(sum), await queryDestination(options, query, sum, questions, signal));
      });
      const differing = open.filter((sum) => (rows.get(keyOf(sum))?.difference ?? '0') !== '0');
      open =
        differing.length === 0 ? [] : moved(differing, await sumLedger(options, query, signal));
    }
    const sorted = [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return { kind: 'reconciled', rows: sorted.map(([, row]) => row) };
  };
}

/** Returns the sums that changed during the query. Their differences are not reliable yet. */
function moved(before: readonly MetricSums[], now: readonly MetricSums[]): MetricSums[] {
  const known = new Map(before.map((sum) => [keyOf(sum), sum]));
  return now.filter((sum) => {
    const earlier = known.get(keyOf(sum));
    if (earlier === undefined) return false;
    return earlier.delivered !== sum.delivered || earlier.pending !== sum.pending;
  });
}

async function queryDestination(
  { destination, describe }: ReconcileOptions,
  { from, to, questions = MAX_QUESTIONS }: ReconcileQuery,
  sum: MetricSums,
  question: number,
  signal: AbortSignal,
): Promise<ReconcileRow> {
  const { tenant, metric, delivered, pending, deadLetters, parked, withheld } = sum;
  const row = {
    tenant,
    metric,
    ledger: signedFromNanos(delivered + pending + deadLetters + parked + withheld),
    delivered: signedFromNanos(delivered),
    pending: signedFromNanos(pending),
    deadLetters: signedFromNanos(deadLetters),
    parked: signedFromNanos(parked),
    withheld: signedFromNanos(withheld),
  };
  if (destination.sums === undefined) {
    if (sum.hasDeleted) return { ...row, note: FORGOTTEN };
    const { acknowledged } = sum;
    const difference = signedFromNanos(acknowledged - delivered);
    return { ...row, acknowledged: signedFromNanos(acknowledged), difference };
  }
  if (question > questions) return { ...row, note: 'too many rows: query one tenant' };
  const query = { tenant: await describe(tenant), metric, from, to };
  const outcome = await destination.sums.total(query, signal);
  if (outcome.kind !== 'total') return { ...row, note: outcome.reason };
  const difference = nanosFromDecimal(outcome.quantity) - delivered;
  return { ...row, reported: outcome.quantity, difference: signedFromNanos(difference) };
}

export interface ReconcileQuery {
  /** Complete UTC days `[from, to)`, milliseconds since the epoch, by window start. */
  readonly from: number;
  readonly to: number;
  /** Only this tenant. */
  readonly tenant?: string;
  /** Only pairs of tenant and metric with a selected event. Their sums include all their events. */
  readonly selects?: (event: UsageEvent) => boolean;
  /** Most rows to query at the destination; by default 500. */
  readonly questions?: number;
  /** First row to query, as a share of all rows in [0, 1); by default 0. */
  readonly beginAt?: number;
  /** The first days of the range if their events are deleted. */
  readonly deleted?: DeletedDays;
}

/**
 * Days whose events are deleted and whose sums are stored. Every cursor passed every event before
 * it was deleted, so the sums count as delivered.
 */
export interface DeletedDays {
  /** The first midnight from which every event is stored, milliseconds since the epoch. */
  readonly until: number;
  readonly sums: readonly {
    readonly tenant: string;
    readonly metric: string;
    readonly unit: string;
    readonly quantity: Decimal;
  }[];
}

/** The parts of a ledger sum, by the state of an event at the destination. */
export type Part = 'delivered' | 'pending' | 'deadLetters' | 'parked' | 'withheld';

/** One tenant's sums of one metric, in nano-units, by part. */
export type MetricSums = { readonly tenant: string; readonly metric: string } & Record<
  Part,
  bigint
> & {
    /** The acknowledged share of all parts except `pending`. */
    acknowledged: bigint;
    /** Whether some events are deleted, and their acknowledgements with them. */
    hasDeleted: boolean;
  };

/** Returns the key of a row of one destination. */
export function keyOf({ tenant, metric }: Pick<UsageEvent, 'tenant' | 'metric'>): string {
  return `${tenant}\0${metric}`;
}

/** Returns the ledger's sums of a range, by tenant and metric, that the query selects. */
export async function sumLedger(
  options: ReconcileOptions,
  { from, to, tenant, selects, deleted }: ReconcileQuery,
  signal: AbortSignal,
): Promise<readonly MetricSums[]> {
  const parked = await sequencesOf(options.records.parked());
  const unsent = await options.records.unsent();
  // Read once, so that events delivered meanwhile count as pending.
  const hasPassed = options.passed();
  const partOf = (sequence: number): Part => {
    if (!hasPassed(sequence)) return 'pending';
    if (options.deadLetters.has(sequence)) return 'deadLetters';
    if (parked.has(sequence)) return 'parked';
    return isUnsent(unsent, sequence) ? 'withheld' : 'delivered';
  };
  const sums = new Map<string, MetricSums>();
  const selected = new Set<string>();
  for (const sum of deleted?.sums ?? []) {
    if (!options.wants(sum)) continue;
    const key = keyOf(sum);
    const known = sums.get(key) ?? { ...emptySums(sum), hasDeleted: true };
    known.delivered += nanosFromDecimal(sum.quantity);
    sums.set(key, known);
    selected.add(key);
  }
  const first = Math.min(deleted?.until ?? from, to);
  const reach = options.changes.reach(first, tenant);
  for await (const { sequence, event } of options.ledger.scan(reach, to, signal)) {
    const sentAt = options.changes.sentAt({ sequence, event });
    if (sentAt < first || sentAt >= to) continue;
    if (tenant !== undefined && event.tenant !== tenant) continue;
    if (!options.wants(event)) continue;
    const key = keyOf(event);
    const sum = sums.get(key) ?? emptySums(event);
    const part = partOf(sequence);
    const quantity = nanosFromDecimal(event.quantity);
    sum[part] += quantity;
    if (part !== 'pending' && options.acknowledgements.has(sequence)) sum.acknowledged += quantity;
    sums.set(key, sum);
    if (selects?.(event) ?? true) selected.add(key);
  }
  return [...sums].filter(([key]) => selected.has(key)).map(([, sum]) => sum);
}

function emptySums({ tenant, metric }: Pick<UsageEvent, 'tenant' | 'metric'>): MetricSums {
  const parts = { delivered: 0n, pending: 0n, deadLetters: 0n, parked: 0n, withheld: 0n };
  return { tenant, metric, ...parts, acknowledged: 0n, hasDeleted: false };
}

/** Tolerances for billing systems that add up in doubles. */
const RELATIVE = 1e-9;
const ABSOLUTE = 1e-6;

/** Returns whether a difference exceeds the rounding of a billing system with doubles. */
export function isDrift(delivered: string, difference: string): boolean {
  return Math.abs(Number(difference)) > Math.max(ABSOLUTE, RELATIVE * Number(delivered));
}
