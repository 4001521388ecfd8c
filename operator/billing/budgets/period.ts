import type { BudgetPeriod } from '../../model/budget.ts';
import type { TimeRange, Window } from '../../model/window.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/**
 * The current period of a budget: `from` inclusive, `to` exclusive, milliseconds since the epoch.
 * A prepaid balance counts from its first credit, `Infinity` without one, and ends at `Infinity`.
 */
export function periodAt(period: BudgetPeriod, now: number, prepaidSince: number): TimeRange {
  if (period.kind === 'prepaid') return { from: prepaidSince, to: Number.POSITIVE_INFINITY };
  if (period.kind === 'rolling') {
    const tomorrow = nextDay(now);
    return { from: tomorrow - period.days * DAY_MS, to: tomorrow };
  }
  const at = new Date(now);
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  return { from: Date.UTC(year, month), to: Date.UTC(year, month + 1) };
}

/**
 * When usage counts in a period of {@link periodAt}: at the start of its window. The window in
 * which a prepaid balance gets its first credit counts from that credit on, if the window begins in
 * the same hour (docs/how-to/budgets.md#prepaid).
 */
export function countedAt({ start, end }: Window, { from, to }: TimeRange): number {
  const hasCredit = to === Number.POSITIVE_INFINITY && start < from && from < end;
  return hasCredit && start >= hourStart(from) ? from : start;
}

/** The first instant of the hour. */
export function hourStart(at: number): number {
  return Math.floor(at / HOUR_MS) * HOUR_MS;
}

/** The first instant of the UTC calendar month, in which tiers begin to count. */
export function monthOf(at: number): number {
  const day = new Date(at);
  return Date.UTC(day.getUTCFullYear(), day.getUTCMonth());
}

/** The first instant of the UTC day. */
export function dayStart(at: number): number {
  return Math.floor(at / DAY_MS) * DAY_MS;
}

/** The first instant of the next UTC day, when prices may change. */
export function nextDay(at: number): number {
  return dayStart(at) + DAY_MS;
}

/** `2026-11-21` */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
