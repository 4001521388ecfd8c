import pLimit from 'p-limit';
import type { Destination } from '../destinations/destination.ts';
import type { Tenant } from '../model/tenant.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import {
  keyOf,
  type ReconcileQuery,
  sumLedger,
  type SumOptions,
  type Sums,
} from './reconcile-sums.ts';

const DAY_MS = 86_400_000;
const CONCURRENT_QUESTIONS = 4;
/** Rows that the destination is asked after in one reconciliation. */
const MAX_QUESTIONS = 500;
/** How often a row is compared while delivery goes on underneath. */
const ROUNDS = 3;

/**
 * One tenant's sum of one metric, in plain decimal text. `ledger` = `delivered` + `pending` +
 * `deadLetters` + `parked` + `withheld`. What the destination has ought to be `delivered`: a destination
 * that can be asked says so itself (`reported`), of another one it is known what it `acknowledged`.
 */
export interface ReconcileRow {
  readonly tenant: string;
  readonly metric: string;
  readonly ledger: string;
  /** Passed by the cursor, and none of the others. */
  readonly delivered: string;
  /** Behind the cursor's position: still to be sent. */
  readonly pending: string;
  readonly deadLetters: string;
  readonly parked: string;
  /** Passed without being sent: before the start, skipped, or discarded. */
  readonly withheld: string;
  readonly reported?: string;
  readonly acknowledged?: string;
  /** `reported` or `acknowledged` − `delivered`; may be negative. */
  readonly difference?: string;
  /** Why there is neither. */
  readonly note?: string;
}

export type ReconcileOutcome =
  /** By tenant, then metric. */
  | { readonly kind: 'reconciled'; readonly rows: readonly ReconcileRow[] }
  | { readonly kind: 'failed'; readonly reason: string };

export interface ReconcileOptions extends SumOptions {
  readonly destination: Pick<Destination, 'totals'>;
  readonly describe: (tenant: string) => Promise<Tenant>;
}

/** Compares the ledger's sums with what the destination acknowledged, and with what it says it has. */
export function createReconcile(options: ReconcileOptions) {
  return async (query: ReconcileQuery, signal: AbortSignal): Promise<ReconcileOutcome> => {
    if (query.from % DAY_MS !== 0 || query.to % DAY_MS !== 0 || query.from >= query.to) {
      const given = `${new Date(query.from).toISOString()} to ${new Date(query.to).toISOString()}`;
      return { kind: 'failed', reason: `not whole UTC days: from, to: "${given}"` };
    }
    const rows = new Map<string, ReconcileRow>();
    const sums = await sumLedger(options, query, signal);
    const first = Math.floor((query.beginAt ?? 0) * sums.length);
    let open = [...sums.slice(first), ...sums.slice(0, first)];
    let questions = 0;
    for (let round = 1; round <= ROUNDS && open.length > 0; round += 1) {
      await pLimit(CONCURRENT_QUESTIONS).map(open, async (sum) => {
        questions += 1;
        rows.set(keyOf(sum), await askDestination(options, query, sum, questions, signal));
      });
      const asked = open.filter((sum) => (rows.get(keyOf(sum))?.difference ?? '0') !== '0');
      open = asked.length === 0 ? [] : moved(asked, await sumLedger(options, query, signal));
    }
    const sorted = [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return { kind: 'reconciled', rows: sorted.map(([, row]) => row) };
  };
}

/** What was sent while the destination was being asked: a difference there says nothing yet. */
function moved(before: readonly Sums[], now: readonly Sums[]): Sums[] {
  const known = new Map(before.map((sum) => [keyOf(sum), sum]));
  return now.filter((sum) => {
    const earlier = known.get(keyOf(sum));
    if (earlier === undefined) return false;
    return earlier.delivered !== sum.delivered || earlier.pending !== sum.pending;
  });
}

async function askDestination(
  { destination, describe }: ReconcileOptions,
  { from, to, questions = MAX_QUESTIONS }: ReconcileQuery,
  sum: Sums,
  question: number,
  signal: AbortSignal,
): Promise<ReconcileRow> {
  const { tenant, metric, delivered, pending, deadLetters, parked, withheld } = sum;
  const row = {
    tenant,
    metric,
    ledger: decimalFromNanos(delivered + pending + deadLetters + parked + withheld),
    delivered: decimalFromNanos(delivered),
    pending: decimalFromNanos(pending),
    deadLetters: decimalFromNanos(deadLetters),
    parked: decimalFromNanos(parked),
    withheld: decimalFromNanos(withheld),
  };
  if (destination.totals === undefined) {
    const { acknowledged } = sum;
    const difference = signed(acknowledged - delivered);
    return { ...row, acknowledged: decimalFromNanos(acknowledged), difference };
  }
  if (question > questions) return { ...row, note: 'too many rows: ask for one tenant' };
  const query = { tenant: await describe(tenant), metric, from, to };
  const outcome = await destination.totals(query, signal);
  if (outcome.kind !== 'total') return { ...row, note: outcome.reason };
  const difference = nanosOf(outcome.quantity) - delivered;
  return { ...row, reported: outcome.quantity, difference: signed(difference) };
}

function nanosOf(text: string): bigint {
  const [whole = '0', fraction = ''] = text.split('.');
  return BigInt(whole) * 1_000_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
}

function signed(nanos: bigint): string {
  return nanos < 0n ? `-${decimalFromNanos(-nanos)}` : decimalFromNanos(nanos);
}
