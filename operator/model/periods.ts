const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Sums are kept for every UTC hour, and once more for every UTC day, so that a month is soon added up. */
export type PeriodKind = 'hour' | 'day';

export const PERIOD_MS: Readonly<Record<PeriodKind, number>> = { hour: HOUR_MS, day: DAY_MS };

/** `2026-11-21T09` or `2026-11-21`, the period in which a window starts. */
export function periodOf(kind: PeriodKind, windowStart: string): string {
  return windowStart.slice(0, kind === 'hour' ? 13 : 10);
}

/** The first instant of a period, RFC 3339. */
export function periodStart(period: string): string {
  return period.length === 10 ? `${period}T00:00:00Z` : `${period}:00:00Z`;
}

/** The hours in which windows may start that start in `[from, to)`. */
export function hoursOf(from: number, to: number): readonly string[] {
  return periods('hour', Math.floor(from / HOUR_MS) * HOUR_MS, Math.ceil(to / HOUR_MS) * HOUR_MS);
}

/** What a time range comes to: whole days, whole hours, and what is left at the edges, in milliseconds. */
export interface RangeCover {
  readonly days: readonly string[];
  readonly hours: readonly string[];
  readonly edges: readonly { readonly from: number; readonly to: number }[];
}

/** Covers `[from, to)` once, with as few periods as may be; `hourly` when days are too coarse. */
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
