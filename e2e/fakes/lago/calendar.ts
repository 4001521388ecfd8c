const DAY_MS = 86_400_000;

/** Returns days since the epoch by the calendar of a time zone. */
export function dayOf(at: number, zone: string): number {
  return Math.floor(wallClock(at, zone) / DAY_MS);
}

/** Returns the moment at which a day of a time zone begins. */
export function startOfDay(day: number, zone: string): number {
  const midnight = day * DAY_MS;
  const guess = midnight - (wallClock(midnight, zone) - midnight);
  return midnight - (wallClock(guess, zone) - guess);
}

/** Returns the wall clock of a time zone at a moment, read as UTC. */
function wallClock(at: number, zone: string): number {
  if (zone === 'UTC') return at;
  const parts = formatOf(zone).formatToParts(at);
  const of = (type: string): number => Number(parts.find((part) => part.type === type)?.value);
  return Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const made =
    formats.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  formats.set(zone, made);
  return made;
}

/** The settings that decide when a subscription's periods begin. */
export interface Cycle {
  readonly interval: string;
  readonly billingTime: string;
  /** The day of `subscription_at`. */
  readonly anchorDay: number;
}

/** First day of a period, and of the one after it. */
export interface Period {
  readonly first: number;
  readonly next: number;
}

const MONTHS: Readonly<Record<string, number>> = {
  monthly: 1,
  quarterly: 3,
  semiannual: 6,
  yearly: 12,
};
const MONDAY = 4;

/**
 * Returns the period of a day. Calendar periods begin on Mondays and firsts of months.
 * Anniversaries begin on the day of the subscription, or the last of a shorter month
 * (https://getlago.com/docs/guide/plans/plan-model#billing-cycles).
 */
export function periodOf(day: number, { interval, billingTime, anchorDay }: Cycle): Period {
  const isCalendar = billingTime !== 'anniversary';
  const months = MONTHS[interval];
  if (months === undefined) {
    const anchor = isCalendar ? MONDAY : anchorDay % 7;
    const first = day - ((day - anchor + 7) % 7);
    return { first, next: first + 7 };
  }
  const anchor = new Date(anchorDay * DAY_MS);
  const anchorMonth = isCalendar ? 0 : anchor.getUTCFullYear() * 12 + anchor.getUTCMonth();
  const dayOfMonth = isCalendar ? 1 : anchor.getUTCDate();
  const date = new Date(day * DAY_MS);
  const month = date.getUTCFullYear() * 12 + date.getUTCMonth();
  const behind = (((month - anchorMonth) % months) + months) % months;
  const begun = clamped(month - behind, dayOfMonth);
  const start = begun <= day ? month - behind : month - behind - months;
  return { first: clamped(start, dayOfMonth), next: clamped(start + months, dayOfMonth) };
}

/** Returns a day of a month counted from year 0, or the month's last day. */
function clamped(month: number, dayOfMonth: number): number {
  const [year, index] = [Math.floor(month / 12), ((month % 12) + 12) % 12];
  const last = new Date(Date.UTC(year, index + 1, 0)).getUTCDate();
  return Date.UTC(year, index, Math.min(dayOfMonth, last)) / DAY_MS;
}

/** Returns how many of an interval a year has. */
export function intervalsPerYear(interval: string): number {
  const months = MONTHS[interval];
  return months === undefined ? 52 : 12 / months;
}
