import { html } from './preact.js';
import { Choice } from './components.js';
import { monthText } from './format.js';
import { setQuery } from './location.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Sums of hours are kept for 35 days; one day less is safe. */
const HOURS_STORED_MS = 34 * DAY_MS;
/** How often a page with the last hour moves on. */
const HOUR_STEP_MS = 5 * MINUTE_MS;

/**
 * @typedef {{ from: string, to: string, name: string, bucket: 'window' | 'hour' | 'day' }}
 *   TimeRange RFC 3339 or a UTC day
 */

/**
 * The range of a page: complete hours and days of UTC, so that the server answers from stored sums.
 * The last hour is shown in steps of a window.
 * @param {URLSearchParams} query
 * @param {number} now
 * @param {string} [otherwise] the range of a page whose link names none
 * @returns {TimeRange}
 */
export function rangeOf(query, now, otherwise = 'month') {
  const name = query.get('range') ?? otherwise;
  const end = (Math.floor(now / HOUR_MS) + 1) * HOUR_MS;
  if (name === '1h') {
    const last = (Math.floor(now / HOUR_STEP_MS) + 1) * HOUR_STEP_MS;
    return range(name, last - HOUR_MS - HOUR_STEP_MS, last, 'window');
  }
  if (name === '24h') return range(name, end - DAY_MS, end, 'hour');
  if (name === '7d') return range(name, Math.floor(now / DAY_MS) * DAY_MS - 6 * DAY_MS, end);
  if (name === 'last-month') return range(name, monthStart(now, 1), monthStart(now, 0));
  if (name === 'custom') {
    const from = Date.parse(query.get('from') ?? '');
    const last = Date.parse(query.get('to') ?? '');
    if (Number.isFinite(from) && Number.isFinite(last) && last >= from)
      return range(name, from, last + DAY_MS, now - from > HOURS_STORED_MS ? 'day' : undefined);
  }
  return range('month', monthStart(now, 0), end);
}

/** @param {number} now @param {number} back */
function monthStart(now, back) {
  const today = new Date(now);
  return Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - back);
}

/**
 * @param {string} name
 * @param {number} from
 * @param {number} to
 * @param {TimeRange['bucket']} [bucket]
 * @returns {TimeRange}
 */
function range(name, from, to, bucket = to - from > 8 * DAY_MS ? 'day' : 'hour') {
  return { name, from: new Date(from).toISOString(), to: new Date(to).toISOString(), bucket };
}

/** The query of a link to the same range. @param {TimeRange} shown */
export function rangeQuery({ name, from, to }) {
  return name === 'custom'
    ? { range: name, from: from.slice(0, 10), to: lastDay(to) }
    : { range: name };
}

/** The word for a step of a chart or a table. @param {string} bucket */
export function bucketText(bucket) {
  return bucket === 'window' ? 'interval' : bucket;
}

/** @param {string} to */
function lastDay(to) {
  return new Date(Date.parse(to) - 1).toISOString().slice(0, 10);
}

/** `2026-11`. @param {number} now @param {number} back how many months ago */
export function monthOf(now, back) {
  return new Date(monthStart(now, back)).toISOString().slice(0, 7);
}

/**
 * @param {{ range: TimeRange, only?: string[] }} properties `only` the names of these ranges; all
 *   of them when absent
 */
export function RangePicker({ range: shown, only }) {
  const now = Date.now();
  const names = [
    ['month', `This month, ${monthText(monthOf(now, 0))}`],
    ['last-month', `Last month, ${monthText(monthOf(now, 1))}`],
    ['7d', 'Last 7 days'],
    ['24h', 'Last 24 hours'],
    ['1h', 'Last hour'],
    ['custom', 'Chosen days'],
  ].filter(([name = '']) => only === undefined || only.includes(name));
  const choose = (/** @type {string} */ name) => {
    const days = name === 'custom' ? { from: shown.from.slice(0, 10), to: lastDay(shown.to) } : {};
    setQuery({ range: name, from: undefined, to: undefined, ...days });
  };
  const day = (/** @type {'from' | 'to'} */ name, /** @type {string} */ value) => html`
    <label class="field">
      ${name === 'from' ? 'First day (UTC)' : 'Last day (UTC)'}
      <input type="date" value=${value} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.currentTarget.value })} />
    </label>
  `;
  return html`
    <${Choice} label="Time" value=${shown.name} options=${names} onChoose=${choose} />
    ${shown.name === 'custom' && day('from', shown.from.slice(0, 10))}
    ${shown.name === 'custom' && day('to', lastDay(shown.to))}
  `;
}
