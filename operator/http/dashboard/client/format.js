const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const COUNT = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SMALLEST = 0.001;

/** A quantity as people read it; the exact decimals are in the downloads. @param {number} value */
export function quantity(value) {
  if (value > 0 && value < SMALLEST) return '< 0.001';
  return NUMBER.format(value);
}

/** @param {number} value */
export function count(value) {
  return COUNT.format(value);
}

/** `2026-11-21 12:30 UTC`; seconds only where they are not zero. @param {string | undefined} text RFC 3339 */
export function time(text) {
  if (text === undefined) return '–';
  const iso = new Date(text).toISOString();
  const seconds = iso.slice(16, 19) === ':00' ? '' : iso.slice(16, 19);
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)}${seconds} UTC`;
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
  return `${NUMBER.format(value / 1024 ** power)} ${units[power]}`;
}
