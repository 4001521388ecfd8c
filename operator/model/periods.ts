import type { TimeRange } from './window.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Sums are stored for every UTC hour and every UTC day, so that a month needs few of them. */
export type PeriodKind = 'hour' | 'day';

export const PERIOD_MS: Readonly<Record<PeriodKind, number>> = { hour: HOUR_MS, day: DAY_MS };

/** The period in which a window starts: `2026-11-21T09` or `2026-11-21`. */
export function periodOf(kind: PeriodKind, windowStart: string): string {
  return windowStart.slice(0, kind === 'hour' ? 13 : 10);
}

/** The calendar month of a window or period: `2026-11`. */
export function monthOf(windowStart: string): string {
  return windowStart.slice(0, 7);
}

/** The calendar month of a name such as `2026-11`, in UTC. */
export function monthRange(month: string): TimeRange {
  const from = new Date(month);
  return { from: from.getTime(), to: Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1) };
}

/** The name of the next month. */
export function monthAfter(month: string): string {
  return monthOf(new Date(monthRange(month).to).toISOString());
}

/** The first instant of a period, RFC 3339. */
export function periodStart(period: string): string {
  return period.length === 10 ? `${period}T00:00:00Z` : `${period}:00:00Z`;
}

/** The hours that contain the window starts in `[from, to)`. */
export function hoursOf(from: number, to: number): readonly string[] {
  return periods('hour', Math.floor(from / HOUR_MS) * HOUR_MS, Math.ceil(to / HOUR_MS) * HOUR_MS);
}

/** A time range as complete days, complete hours, and the edges in milliseconds. */
export interface RangeCover {
  readonly days: readonly string[];
  readonly hours: readonly string[];
  readonly edges: readonly { readonly from: number; readonly to: number }[];
}

/** Covers `[from, to)` exactly once with as few periods as possible; with `hourly` without days. */
export function coverRange(from: number, to: number, hourly: boolean): RangeCover {
  const first = Math.ceil(from / HOUR_MS) * HOUR_MS;
  const last = Math.floor(to / HOUR_MS) * HOUR_MS;
  if (last <= first) return { days: [], hours: [], edges: [{ from, to }] };
  const firstDay = Math.ceil(first / DAY_MS) * DAY_MS;
  const lastDay = Math.floor(last / DAY_MS) * DAY_MS;
  const byDay = !hourly && lastDay > firstDay;
  const edges = [
    { from, to: first },
    { from: last, to },
  ];
  return {
    days: byDay ? periods('day', firstDay, lastDay) : [],
    hours: byDay
      ? [...periods('hour', first, firstDay), ...periods('hour', lastDay, last)]
      : periods('hour', first, last),
    edges: edges.filter((edge) => edge.to > edge.from),
  };
}

function periods(kind: PeriodKind, from: number, to: number): string[] {
  const length = PERIOD_MS[kind];
  return Array.from({ length: (to - from) / length }, (_, index) =>
    periodOf(kind, new Date(from + index * length).toISOString()),
  );
}
