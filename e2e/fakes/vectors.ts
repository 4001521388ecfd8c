import type { Account, AccountInvoice } from './account.ts';
import { exact, parseExact, plus, textOf, times, ZERO } from './exact.ts';

const YEAR = 2027;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr'];
const TRANSIT_MS = 120_000;

/** Usage with its timestamp and the moment of its arrival. */
export interface Arrival {
  readonly stamp: number;
  readonly at: number;
  readonly units: string;
}

/** Parses a time: `05T00` is 5 January 2027 00:00, `Feb 01T00:05:30` is in February. */
export function time(text: string): number {
  const match = /^(?:([A-Z][a-z]{2}) )?(\d\d)T(\d\d)(?::(\d\d))?(?::(\d\d))?$/.exec(text);
  if (match === null) throw new RangeError(`vectors: not a time: "${text}"`);
  const [, month = 'Jan', day, hour, minute = '0', second = '0'] = match;
  const numbers = [day, hour, minute, second].map(Number);
  return Date.UTC(YEAR, MONTHS.indexOf(month), numbers[0], numbers[1], numbers[2], numbers[3]);
}

/**
 * Parses usage: `05T00 10, 31T23 4 @Feb 01T00:30` is two uses. The second arrives late; others
 * arrive after two minutes.
 */
export function usage(text: string): readonly Arrival[] {
  if (text === '') return [];
  return text.split(', ').map((part) => {
    const [stamped = '', arrival] = part.split(' @');
    const cut = stamped.lastIndexOf(' ');
    const stamp = time(stamped.slice(0, cut));
    const at = arrival === undefined ? stamp + TRANSIT_MS : time(arrival);
    return { stamp, at, units: stamped.slice(cut + 1) };
  });
}

export interface Step {
  readonly at: number;
  readonly run: () => unknown;
}

/** Turns the clock from step to step in the order of time. */
export async function play(
  steps: readonly Step[],
  sliceTo: (at: number) => unknown,
  until: number,
): Promise<void> {
  for (const { at, run } of steps.toSorted((a, b) => a.at - b.at)) {
    await sliceTo(at);
    await run();
  }
  await sliceTo(until);
}

/**
 * Formats an account as the vectors write it: `(16) 20, Jan 15, never 1` is an invoice of 20 made
 * on 16 January, one of 15 for January, and a unit on none. `twice` are units on two lines, `open`
 * are units whose invoice is yet to come.
 */
export function summary(
  { invoices, events }: Account,
  label: (invoice: AccountInvoice) => string = labelOf,
): string {
  const reported = invoices
    .toSorted((a, b) => a.madeAt - b.madeAt)
    .map((invoice) => ({ invoice, amounts: amountsOf(invoice) }))
    .filter(({ amounts }) => amounts.length > 0)
    .map(({ invoice, amounts }) => `${label(invoice)} ${amounts.join('+')}`);
  const counts = { open: ZERO, never: ZERO, twice: ZERO };
  for (const { units, lines, fate } of events) {
    const value = exact(units);
    if (fate.kind !== 'invoiced') counts[fate.kind] = plus(counts[fate.kind], value);
    if (lines > 1) counts.twice = plus(counts.twice, times(value, exact(String(lines - 1))));
  }
  const rest = Object.entries(counts)
    .filter(([, units]) => units.digits !== 0n)
    .map(([name, units]) => `${name} ${textOf(units)}`);
  return [...reported, ...rest].join(', ');
}

/** Returns the month of a cycle, and the day on which any other invoice was made. */
export function labelOf({ kind, from, madeAt, isFinal }: AccountInvoice): string {
  const made = new Date(madeAt);
  const month = MONTHS[made.getUTCMonth()];
  const day = month === 'Jan' ? made.getUTCDate() : `${month} ${made.getUTCDate()}`;
  const name = kind === 'cycle' ? MONTHS[new Date(from).getUTCMonth()] : `(${day})`;
  return isFinal ? `${name}` : `draft ${name}`;
}

function amountsOf({ lines }: AccountInvoice): readonly string[] {
  return lines.map(({ amount }) => amount).filter((amount) => parseExact(amount)?.digits !== 0n);
}
