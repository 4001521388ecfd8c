import type { BudgetPeriod } from '../../model/budget.ts';
import type { TimeRange } from '../../model/window.ts';

const DAY_MS = 86_400_000;

/**
 * The current period of a budget: `from` inclusive, `to` exclusive, milliseconds since the epoch.
 * Usage counts by the start of its window. A prepaid balance counts from its first credit,
 * `Infinity` without one, and ends at `Infinity`.
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
