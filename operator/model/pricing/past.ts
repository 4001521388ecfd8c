import type { PriceBook } from '../price-book.ts';
import { sameValue } from '../same-value.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * The UTC day before which started prices are fixed (docs/how-to/costs.md#when-prices-change):
 * prices that have started, or start within an hour, cannot change. `now` is milliseconds since the
 * epoch.
 */
export function fixedBefore(now: number): string {
  const today = Math.floor((now + HOUR_MS) / DAY_MS) * DAY_MS;
  return new Date(today + DAY_MS).toISOString().slice(0, 10);
}

/** Describes, for people, a changed price that starts before `day`; undefined if there is none. */
export function pastChange(before: PriceBook, next: PriceBook, day: string): string | undefined {
  const was = fixedPart(before, day);
  const is = fixedPart(next, day);
  if (was.size > 0 && before.currency !== next.currency) {
    return `spec.currency: "${before.currency}" has been in force`;
  }
  const names = new Set([...was.keys(), ...is.keys()]);
  const changed = [...names].filter((name) => !sameValue(was.get(name), is.get(name)));
  if (changed.length === 0) return undefined;
  const quoted = changed.map((name) => `"${name}"`).join(', ');
  return `spec.prices: other prices before ${day} than have been in force: ${quoted}`;
}

function fixedPart({ prices }: PriceBook, day: string): ReadonlyMap<string, unknown> {
  return new Map(
    prices.flatMap(({ name, metric, match, rates }) => {
      const fixed = rates.filter(({ from }) => from < day);
      return fixed.length === 0 ? [] : [[name, { metric, match, rates: fixed }] as const];
    }),
  );
}

/** Whether a text is an existing day such as `2026-12-01`. */
export function isDay(text: string): boolean {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isFinite(at) && new Date(at).toISOString().startsWith(text);
}
