import { html } from './preact.js';
import { setQuery } from './location.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** @typedef {{ from: string, to: string, name: string, bucket: 'hour' | 'day' }} TimeRange RFC 3339 or a UTC day */

const NAMES = [
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['month', 'This month'],
  ['last-month', 'Last month'],
  ['custom', 'Chosen days'],
];

/**
 * The range that a page shows, whole hours and days of UTC, so that the server answers from the sums
 * it keeps.
 * @param {URLSearchParams} query
 * @param {number} now
 * @returns {TimeRange}
 */
export function rangeOf(query, now) {
  const name = query.get('range') ?? '24h';
  const today = new Date(now);
  const end = (Math.floor(now / HOUR_MS) + 1) * HOUR_MS;
  const month = (/** @type {number} */ back) =>
    Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - back);
  if (name === '7d') return range(name, Math.floor(now / DAY_MS) * DAY_MS - 6 * DAY_MS, end);
  if (name === 'month') return range(name, month(0), end);
  if (name === 'last-month') return range(name, month(1), month(0));
  if (name === 'custom') {
    const from = Date.parse(query.get('from') ?? '');
    const last = Date.parse(query.get('to') ?? '');
    if (Number.isFinite(from) && Number.isFinite(last) && last >= from)
      return range(name, from, last + DAY_MS);
  }
  return range(name === 'custom' ? 'custom' : '24h', end - DAY_MS, end);
}

/** @param {string} name @param {number} from @param {number} to @returns {TimeRange} */
function range(name, from, to) {
  return {
    name,
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    bucket: to - from > 8 * DAY_MS ? 'day' : 'hour',
  };
}

/** @param {{ range: TimeRange }} properties */
export function RangePicker({ range: shown }) {
  const choose = (/** @type {any} */ event) => {
    const name = event.currentTarget.value;
    const lastDay = new Date(Date.parse(shown.to) - 1).toISOString().slice(0, 10);
    const days = name === 'custom' ? { from: shown.from.slice(0, 10), to: lastDay } : {};
    setQuery({ range: name, from: undefined, to: undefined, ...days });
  };
  const day = (/** @type {'from' | 'to'} */ name, /** @type {string} */ value) => html`
    <label class="field">
      ${name === 'from' ? 'First day (UTC)' : 'Last day (UTC)'}
      <input type="date" value=${value} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.currentTarget.value })} />
    </label>
  `;
  return html`
    <label class="field">
      Time
      <select value=${shown.name} onChange=${choose}>
        ${NAMES.map(([value, text]) => html`<option value=${value} selected=${value === shown.name}>${text}</option>`)}
      </select>
    </label>
    ${shown.name === 'custom' && day('from', shown.from.slice(0, 10))}
    ${shown.name === 'custom' && day('to', new Date(Date.parse(shown.to) - 1).toISOString().slice(0, 10))}
  `;
}
