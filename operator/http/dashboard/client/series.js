/** @typedef {import('./time-range.js').TimeRange} TimeRange */

const STEP_MS = { hour: 3_600_000, day: 86_400_000 };
const SHOWN = 8;
const OTHERS = 'others';

/**
 * Rows of GET /api/v1/usage, grouped by a key and by hour or day, as one series per value of the key:
 * the largest first, the rest together.
 * @param {any[]} rows
 * @param {string} key
 * @param {TimeRange} range
 * @param {(value: string) => string} [nameOf]
 */
export function toSeries(rows, key, range, nameOf = (value) => value) {
  const times = timesOf(range);
  const place = new Map(times.map((at, index) => [at, index]));
  const totals = new Map();
  for (const row of rows) totals.set(row[key], (totals.get(row[key]) ?? 0) + row.quantity);
  const ranked = [...totals].toSorted((a, b) => b[1] - a[1]).map(([value]) => value);
  const names = new Map(
    ranked.map((value, index) => [value, index < SHOWN ? nameOf(value) || 'none' : OTHERS]),
  );
  /** @type {Map<string, number[]>} */
  const values = new Map();
  for (const value of ranked) {
    const name = names.get(value) ?? OTHERS;
    if (!values.has(name))
      values.set(
        name,
        times.map(() => 0),
      );
  }
  for (const row of rows) {
    const line = values.get(names.get(row[key]) ?? OTHERS);
    const at = place.get(Date.parse(startOf(row[range.bucket])) / 1000);
    if (line !== undefined && at !== undefined) line[at] = (line[at] ?? 0) + row.quantity;
  }
  return { times, series: [...values].map(([name, amounts]) => ({ name, values: amounts })) };
}

/** Sums of rows by a key, the largest first. @param {any[]} rows @param {string} key @returns {[string, number][]} */
export function totalsBy(rows, key) {
  const totals = new Map();
  for (const row of rows) totals.set(row[key], (totals.get(row[key]) ?? 0) + row.quantity);
  return [...totals].toSorted((a, b) => b[1] - a[1]);
}

/** The beginnings of all hours or days of a range until now, seconds since the epoch. @param {TimeRange} range */
function timesOf(range) {
  const step = STEP_MS[range.bucket];
  const first = Math.floor(Date.parse(range.from) / step) * step;
  const end = Math.min(Date.parse(range.to), Date.now());
  return Array.from(
    { length: Math.max(0, Math.ceil((end - first) / step)) },
    (_, index) => (first + index * step) / 1000,
  );
}

/** `2026-11-21` or `2026-11-21T12:00Z`. @param {string} bucket */
function startOf(bucket) {
  return bucket.length === 10 ? `${bucket}T00:00:00Z` : bucket;
}
