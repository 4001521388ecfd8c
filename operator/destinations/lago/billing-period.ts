const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const MONTHS: Readonly<Record<string, number>> = {
  monthly: 1,
  quarterly: 3,
  semiannual: 6,
  yearly: 12,
};
/** Mondays, as days since the epoch modulo 7. */
const MONDAY = 4;

/**
 * How long after the start of a period nothing may end or change. Lago invoices the previous period
 * within the first hour of the billing day. A subscription that ends before that loses the invoice
 * (docs/how-to/destinations/lago.md#what-lago-does-not-bill).
 */
export const BILLING_RUN_MS = HOUR_MS;

/**
 * Returns the start of the calendar period at a moment in a time zone, milliseconds since the
 * epoch. Weeks begin on Mondays, all others on the first of a month.
 */
export function periodStartOf(interval: string, zone: string, at: number): number {
  const today = dayOf(at, zone);
  const months = MONTHS[interval];
  if (months === undefined) return startOfDay(today - ((today - MONDAY + 7) % 7), zone);
  const date = new Date(today * DAY_MS);
  const month = date.getUTCMonth();
  const first = Date.UTC(date.getUTCFullYear(), month - (month % months), 1) / DAY_MS;
  return startOfDay(first, zone);
}

/** Returns how many of an interval a year has. */
export function intervalsPerYear(interval: string): number {
  const months = MONTHS[interval];
  return months === undefined ? 52 : 12 / months;
}

/** Returns the start of the day that is `days` days after the day of `at`, in a time zone. */
export function dayAfter(at: number, days: number, zone: string): number {
  return startOfDay(dayOf(at, zone) + days, zone);
}

/** Returns days since the epoch by the calendar of a time zone. */
function dayOf(at: number, zone: string): number {
  return Math.floor(wallClock(at, zone) / DAY_MS);
}

function startOfDay(day: number, zone: string): number {
  const midnight = day * DAY_MS;
  const guess = midnight - (wallClock(midnight, zone) - midnight);
  return midnight - (wallClock(guess, zone) - guess);
}

/** Returns the wall clock of a time zone at a moment, read as UTC. */
function wallClock(at: number, zone: string): number {
  const parts = formatOf(zone).formatToParts(at);
  const of = (type: string): number => Number(parts.find((part) => part.type === type)?.value);
  return Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Uses UTC for an unknown zone. */
function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known !== undefined) return known;
  const options = {
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  } as const;
  let made: Intl.DateTimeFormat;
  try {
    made = new Intl.DateTimeFormat('en-US', { ...options, timeZone: zone });
  } catch {
    made = new Intl.DateTimeFormat('en-US', { ...options, timeZone: 'UTC' });
  }
  formats.set(zone, made);
  return made;
}
