const MONTHS: Readonly<Record<string, number>> = { month: 1, quarter: 3, year: 12 };
const SECONDS: Readonly<Record<string, number>> = { day: 86_400, week: 604_800 };

/**
 * Returns the first boundary after a moment, in seconds since the epoch. Boundaries are full
 * intervals from the anchor. In a month without the anchor's day the boundary is on the last day.
 */
export function nextBoundary(anchor: number, interval: string, after: number): number {
  const seconds = SECONDS[interval];
  if (seconds !== undefined) {
    return anchor + (Math.floor((after - anchor) / seconds) + 1) * seconds;
  }
  const months = MONTHS[interval] ?? 1;
  const [from, to] = [anchor, after].map((at) => new Date(at * 1000));
  const separate = monthOf(to) - monthOf(from);
  let count = Math.floor(separate / months) - 1;
  while (inMonths(anchor, count * months) <= after) count += 1;
  return inMonths(anchor, count * months);
}

function monthOf(date: Date | undefined): number {
  return date === undefined ? 0 : date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/**
 * Returns a moment (seconds since the epoch) some months later: on the same day, or on the last of
 * a shorter month.
 */
export function inMonths(anchor: number, months: number): number {
  const date = new Date(anchor * 1000);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + months];
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const day = Math.min(date.getUTCDate(), last);
  const time = anchor - Math.floor(anchor / 86_400) * 86_400;
  return Date.UTC(year, month, day) / 1000 + time;
}
