/** With no, one, two and three decimals. */
const FIXED = [0, 1, 2, 3].map(
  (places) =>
    new Intl.NumberFormat('en', { minimumFractionDigits: places, maximumFractionDigits: places }),
);
const SHORT = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const EXACT = new Intl.NumberFormat('en', { maximumFractionDigits: 9 });
const SMALLEST = 0.0005;
/** A comma between thousands is a decimal sign to half of all readers; this is a narrow space. */
const THOUSANDS = '\u202F';

/**
 * A number in a form that readers everywhere understand the same way.
 * @param {Intl.NumberFormat} format
 * @param {number} value
 */
export function number(format, value) {
  return format.format(value).replaceAll(',', THOUSANDS).replace('-', '−');
}

const HOUR_S = 3600;
const DAY_S = 86_400;

/** Units measured over time or in bytes: they have fractions, also if one number has none. */
const FRACTIONAL = /(^|-)(hours|gib|seconds)$/;

/**
 * The decimals of a unit: three when it is measured over time or in bytes. For things that are
 * counted, as many as the values have, three at most.
 * @param {string} unit
 * @param {number[]} values all that are shown of it
 */
export function decimalsOf(unit, values) {
  if (FRACTIONAL.test(unit)) return 3;
  return values.reduce((most, value) => {
    const [, decimals = ''] = SHORT.format(value).split('.');
    return Math.max(most, decimals.length);
  }, 0);
}

/**
 * The decimals of each unit.
 * @param {any[]} rows with a quantity and a unit
 * @returns {Map<string, number>}
 */
export function decimalsByUnit(rows) {
  const byUnit = [...Map.groupBy(rows, (row) => row.unit)];
  const values = (/** @type {any[]} */ of) => of.map((row) => row.quantity);
  return new Map(byUnit.map(([unit, of]) => [unit, decimalsOf(unit, values(of))]));
}

/**
 * A quantity for a column of figures, decimal point under decimal point; the exact decimals are in
 * the downloads.
 * @param {number} value
 * @param {number} [decimals]
 */
export function quantity(value, decimals = 3) {
  if (decimals === 3 && value !== 0 && Math.abs(value) < SMALLEST)
    return value > 0 ? '< 0.001' : '> −0.001';
  return number(FIXED[decimals] ?? SHORT, value);
}

/** A number for a sentence or an axis, without needless decimals. @param {number} value */
export function plain(value) {
  return value > 0 && value < SMALLEST ? '< 0.001' : number(SHORT, value);
}

/**
 * A number with all of its digits; with its sign when it is a difference.
 * @param {number} value
 * @param {boolean} [isDifference]
 */
export function exact(value, isDifference = false) {
  return `${isDifference && value > 0 ? '+' : ''}${number(EXACT, value)}`;
}

/** A change, with its sign. @param {number} value @param {number} [decimals] */
export function signed(value, decimals = 3) {
  return value > 0 ? `+${quantity(value, decimals).replace('< ', '')}` : quantity(value, decimals);
}

/** @param {number} value @param {number} base */
export function percent(value, base) {
  if (base === 0) return value === 0 ? '0.0 %' : 'new';
  const share = (100 * value) / base;
  return `${share > 0 ? '+' : ''}${quantity(share, 1)} %`;
}

/** @param {number} value */
export function count(value) {
  return quantity(value, 0);
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

/**
 * `2026-11-21 12:30 UTC`; seconds only where they are not zero.
 * @param {string | undefined} text RFC 3339
 */
export function time(text) {
  return text === undefined ? '–' : `${clock(text)} UTC`;
}

/** As {@link time} without `UTC`, for columns whose head says it. @param {string} text RFC 3339 */
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

/**
 * The text for a time without sums: usage is unknown, or nothing was used.
 * @param {any} usage an answer of /api/v1/usage
 */
export function noUsageText({ from, to, measured_since: since }) {
  if (since === undefined) return 'Usage is unknown: nothing was metered yet.';
  if (Date.parse(since) >= Date.parse(to))
    return `Usage is unknown: metering began on ${time(since)}.`;
  return Date.parse(since) > Date.parse(from)
    ? `Nothing was used since metering began on ${time(since)}.`
    : 'Nothing was used in this time.';
}

/** How long ago, in one unit. @param {string | undefined} text RFC 3339 @param {number} now */
export function ago(text, now) {
  if (text === undefined) return 'never';
  return `${duration(Math.max(0, (now - Date.parse(text)) / 1000))} ago`;
}

/** In its two largest units: `45 s`, `8 h`, `5 h 40 min`, `2 d 3 h`. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes =
    seconds < DAY_S ? Math.round(seconds / 60) : Math.round(seconds / HOUR_S) * (HOUR_S / 60);
  const [days, hours, minutesLeft] = [
    Math.floor(minutes / 1440),
    Math.floor(minutes / 60) % 24,
    minutes % 60,
  ];
  return [
    ...(days > 0 ? [`${days} d`] : []),
    ...(hours > 0 ? [`${hours} h`] : []),
    ...(minutesLeft > 0 ? [`${minutesLeft} min`] : []),
  ].join(' ');
}

/** @param {number} value */
export function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  return `${number(SHORT, value / 1024 ** power)} ${units[power]}`;
}
