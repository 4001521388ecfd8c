/** @typedef {import('./time-range.js').TimeRange} TimeRange */

const STEP_S = { hour: 3600, day: 86_400 };
const SHOWN = 8;
/** The key of the smaller series together; no other series has it. */
export const OTHERS = '\u0000others';

/**
 * The data of a chart. `times` are the beginnings of its steps, in seconds since the epoch. `key`
 * is unique, also where two series have the same name: kind, slash, value.
 * @typedef {{ times: number[], step: number, series: { key: string, name: string, values: number[]
 *   }[] }} Drawn
 */

/**
 * Turns rows of GET /api/v1/usage, grouped by a key and by time, into one series for each value of
 * the key. The largest come first; the smaller ones are added up. Only for drawing: the sums that
 * readers see come from the server.
 * @param {any[]} rows
 * @param {string} key
 * @param {TimeRange} range
 * @param {number} windowSeconds
 * @param {(key: string, value: string) => string} nameOf
 * @returns {Drawn}
 */
export function toSeries(rows, key, range, windowSeconds, nameOf) {
  const step = range.bucket === 'window' ? windowSeconds : STEP_S[range.bucket];
  const times = timesOf(range, step);
  const [first = 0] = times;
  const totals = new Map();
  for (const row of rows) totals.set(row[key], (totals.get(row[key]) ?? 0) + row.quantity);
  const ranked = [...totals].toSorted((a, b) => b[1] - a[1]).map(([value]) => value);
  /** @type {Map<string, number[]>} */
  const values = new Map(ranked.slice(0, SHOWN).map((value) => [value, times.map(() => 0)]));
  const others = times.map(() => 0);
  for (const row of rows) {
    const line = values.get(row[key]) ?? others;
    const at = Math.floor((Date.parse(startOf(row[range.bucket])) / 1000 - first) / step);
    if (at >= 0 && at < line.length) line[at] = (line[at] ?? 0) + row.quantity;
  }
  // A model has one colour, whether charts split by SKU or by GPU type.
  const kind = key === 'gpu_type' ? 'sku' : key;
  const series = [...values].map(([value, amounts]) => {
    return { key: `${kind}/${value}`, name: nameOf(key, value), values: amounts };
  });
  if (ranked.length > SHOWN) series.push({ key: OTHERS, name: 'others', values: others });
  return { times, step, series };
}

/**
 * The beginnings of all steps of a range until now, seconds since the epoch.
 * @param {TimeRange} range
 * @param {number} step
 */
function timesOf(range, step) {
  const first = Math.floor(Date.parse(range.from) / 1000 / step) * step;
  const end = Math.min(Date.parse(range.to), Date.now()) / 1000;
  const length = Math.max(0, Math.ceil((end - first) / step));
  return Array.from({ length }, (_, index) => first + index * step);
}

/** `2026-11-21` or `2026-11-21T12:00Z`. @param {string} bucket */
function startOf(bucket) {
  return bucket.length === 10 ? `${bucket}T00:00:00Z` : bucket;
}
