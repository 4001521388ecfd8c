const COUNT = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const FIXED = new Intl.NumberFormat('en', {
  minimumFractionDigits: 3,
  maximumFractionDigits: 3,
});
const SHORT = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const ONE_DECIMAL = new Intl.NumberFormat('en', {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const EXACT = new Intl.NumberFormat('en', { maximumFractionDigits: 9 });
const SMALLEST = 0.0005;

/** Units that are measured over time or in bytes: they have fractions, also where one number has none. */
const FRACTIONAL = /(^|-)(hours|gib|seconds)$/;

/**
 * How many decimals a unit has wherever it is shown: three, or none where whole things are counted.
 * @param {string} unit @param {number[]} values all that are shown of it
 */
export function decimalsOf(unit, values) {
  return FRACTIONAL.test(unit) || !values.every(Number.isInteger) ? 3 : 0;
}

/**
 * A quantity for a column of figures, decimal point under decimal point; the exact decimals are in the downloads.
 * @param {number} value @param {number} [decimals]
 */
export function quantity(value, decimals = 3) {
  if (decimals === 0) return COUNT.format(value);
  if (value !== 0 && Math.abs(value) < SMALLEST) return value > 0 ? '< 0.001' : '> −0.001';
  return FIXED.format(value).replace('-', '−');
}

/** A number in a sentence or on an axis: no more decimals than it has. @param {number} value */
export function plain(value) {
  return value > 0 && value < SMALLEST ? '< 0.001' : SHORT.format(value);
}

/**
 * Every digit that a number has, for what is exact. With its sign where it is a difference.
 * @param {number} value @param {boolean} [isDifference]
 */
export function exact(value, isDifference = false) {
  return `${isDifference && value > 0 ? '+' : ''}${EXACT.format(value).replace('-', '−')}`;
}

/** With its sign, for what has changed. @param {number} value @param {number} [decimals] */
export function signed(value, decimals = 3) {
  return value > 0 ? `+${quantity(value, decimals).replace('< ', '')}` : quantity(value, decimals);
}

/** @param {number} value @param {number} base */
export function percent(value, base) {
  if (base === 0) return value === 0 ? '0.0 %' : 'new';
  const share = (100 * value) / base;
  const text = ONE_DECIMAL.format(share);
  return `${share > 0 ? '+' : ''}${text.replace('-', '−')} %`;
}

/** @param {number} value */
export function count(value) {
  return COUNT.format(value);
}

/** `1 event`, `2 events`. @param {number} value @param {string} one @param {string} [many] */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const UNITS = new Map([
  ['gpu-hours', 'GPU-hours'],
  ['gib-hours', 'GiB-hours'],
  ['gib', 'GiB'],
]);

/** A unit as people write it. @param {string} unit */
export function unitText(unit) {
  return UNITS.get(unit) ?? unit;
}

/** `2026-11-21 12:30 UTC`; seconds only where they are not zero. @param {string | undefined} text RFC 3339 */
export function time(text) {
  return text === undefined ? '–' : `${clock(text)} UTC`;
}

/** As {@link time} without saying that it is UTC, for columns that say so. @param {string} text RFC 3339 */
export function clock(text) {
  const iso = new Date(text).toISOString();
  const seconds = iso.slice(16, 19) === ':00' ? '' : iso.slice(16, 19);
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)}${seconds}`;
}

const MONTH = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
const DAY = new Intl.DateTimeFormat('en', {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});

/** `November 2026`. @param {string} month `2026-11` */
export function monthText(month) {
  return MONTH.format(new Date(`${month}-01T00:00:00Z`));
}

/** `Sat, Nov 21, 2026`. @param {string} day `2026-11-21` */
export function dayText(day) {
  return DAY.format(new Date(`${day.slice(0, 10)}T00:00:00Z`));
}

/** How long ago, in one unit. @param {string | undefined} text RFC 3339 @param {number} now */
export function ago(text, now) {
  if (text === undefined) return 'never';
  return `${duration(Math.max(0, (now - Date.parse(text)) / 1000))} ago`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** @param {number} value */
export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  return `${SHORT.format(value / 1024 ** power)} ${units[power]}`;
}
