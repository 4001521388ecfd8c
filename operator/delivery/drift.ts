import type { ReconcileRow } from './reconcile.ts';

/** Billing systems that add up in doubles are right as far as doubles go. */
const RELATIVE = 1e-9;
const ABSOLUTE = 1e-6;
const MAX_EXAMPLES = 20;

/** What came of comparing one day at one destination. */
export interface DriftReport {
  /** The UTC day's beginning, milliseconds since the epoch. */
  readonly day: number;
  /** Milliseconds since the epoch. */
  readonly comparedAt: number;
  /** Pairs of tenant and metric. */
  readonly compared: number;
  /** Of which no answer came, or that were beyond what is asked after in one day. */
  readonly unanswered: number;
  readonly differing: number;
  /** The first of those that differ. */
  readonly examples: readonly Drift[];
}

export interface Drift {
  readonly tenant: string;
  readonly metric: string;
  /** What the destination has − what it was given, plain decimal text; may be negative. */
  readonly difference: string;
}

export function driftReport(
  day: number,
  rows: readonly ReconcileRow[],
  comparedAt: number,
): DriftReport {
  const differing = rows.flatMap(({ tenant, metric, delivered, difference = '0' }) =>
    isDrift(delivered, difference) ? [{ tenant, metric, difference }] : [],
  );
  return {
    day,
    comparedAt,
    compared: rows.filter(({ difference }) => difference !== undefined).length,
    unanswered: rows.filter(({ difference }) => difference === undefined).length,
    differing: differing.length,
    examples: differing.slice(0, MAX_EXAMPLES),
  };
}

function isDrift(delivered: string, difference: string): boolean {
  return Math.abs(Number(difference)) > Math.max(ABSOLUTE, RELATIVE * Number(delivered));
}
