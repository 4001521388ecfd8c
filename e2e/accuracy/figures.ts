import { nanosFromDecimal } from '../../operator/model/decimal.ts';
import type { ReceivedEvent } from '../long/received.ts';

/** Of the operator's windows. */
export const WINDOW_MS = 10_000;

/** What the API said around a fault reaches a watch within this, on a busy machine too. */
export const ARRIVAL_MS = 5_000;

export const WATCHED = [
  'pods',
  'nodes',
  'resourceclaims',
  'persistentvolumeclaims',
  'services',
  'statefulsets',
  'namespaces',
] as const;
export type Watched = (typeof WATCHED)[number];

/** A stretch in which the operator was killed or its API server away, milliseconds since the epoch. */
export interface Blind {
  /** The journal's age before, and what arrives late after, are part of it. */
  readonly from: number;
  readonly to: number;
  /** From the end of the operator's process to the start of the next; absent where it went on. */
  readonly down?: Stopped;
  /** What came and went within this of a kind whose watch could not go on was never told of. */
  readonly unreported: Stopped;
  /** The watches that could not go on where they were, so that nobody saw what went on with these. */
  readonly kinds: readonly Watched[];
}

export interface Stopped {
  readonly from: number;
  readonly to: number;
}

/** Whether something of a kind happened, from first to last, while the operator saw nothing of that kind. */
export function isUnseen(
  blinds: readonly Blind[],
  kind: Watched,
  first: number,
  last: number,
): boolean {
  return blinds.some(({ from, to, kinds }) => kinds.includes(kind) && first >= from && last <= to);
}

/** A metric's bills held against the truth. */
export interface MetricFigures {
  readonly metric: string;
  /** What of the metric. */
  readonly of?: string;
  /** Sums over what could be seen whole, in the metric's unit. */
  readonly truth: number;
  readonly billed: number;
  readonly relative_error: number;
  /** The largest relative error of any one of those. */
  readonly maximum: number;
  /** Which one; undefined when all are exact. */
  readonly worst?: string;
}

/** One thing that was billed, in billionths of the metric's unit. */
export interface Bill {
  readonly name: string;
  readonly due: bigint;
  readonly paid: bigint;
}

export function figuresOf(
  metric: string,
  of: string | undefined,
  bills: readonly Bill[],
): MetricFigures {
  let truth = 0n;
  let billed = 0n;
  let maximum = 0;
  let worst: string | undefined;
  for (const { name, due, paid } of bills) {
    truth += due;
    billed += paid;
    const error = relative(paid, due);
    if (error <= maximum) continue;
    maximum = error;
    worst = `${name}: ${Number(paid) / 1e9} instead of ${Number(due) / 1e9}`;
  }
  return {
    metric,
    of,
    truth: Number(truth) / 1e9,
    billed: Number(billed) / 1e9,
    relative_error: relative(billed, truth),
    maximum,
    worst,
  };
}

/** Billionths of an amount per hour, held for so many milliseconds. */
export function nanosOf(perHour: number, ms: number): bigint {
  return BigInt(Math.round((perHour * ms * 1e9) / 3_600_000));
}

/** Sums of one metric's events by whatever tells them apart, billionths; events without that are left out. */
export function sumsBy(
  events: readonly ReceivedEvent[],
  metric: string,
  keyOf: (event: ReceivedEvent) => string | undefined,
): ReadonlyMap<string, bigint> {
  const sums = new Map<string, bigint>();
  for (const event of events) {
    const key = event.metric === metric ? keyOf(event) : undefined;
    if (key === undefined) continue;
    sums.set(key, (sums.get(key) ?? 0n) + nanosFromDecimal(event.quantity));
  }
  return sums;
}

function relative(paid: bigint, due: bigint): number {
  if (paid === due) return 0;
  const error = paid > due ? paid - due : due - paid;
  return due === 0n ? Infinity : Number(error) / Number(due);
}
