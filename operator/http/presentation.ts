import type { Gap } from './views.ts';

/** Milliseconds since the epoch as RFC 3339. Undefined stays undefined, which JSON leaves out. */
export function isoTime(ms: number): string;
export function isoTime(ms: number | undefined): string | undefined;
export function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString().replace('.000Z', 'Z');
}

/** A duration as the earlier release spelled it: `1m0s`, `1h0m0s`, `10s`. */
export function goDuration(ms: number): string {
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = (ms / 1000) % 60;
  if (hours > 0) return `${hours}h${minutes}m${seconds}s`;
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}

/** Plain JSON with the snake_case names of the API, at every depth. */
export function snakeCaseKeys(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [toSnakeCase(key), snakeCaseInside(inner)]),
  );
}

function snakeCaseInside(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCaseInside);
  if (typeof value !== 'object' || value === null) return value;
  return snakeCaseKeys({ ...value });
}

/** Does not change keys that are data, such as a GPU model. */
function toSnakeCase(key: string): string {
  if (!/^[a-z][A-Za-z0-9]*$/.test(key)) return key;
  return key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function showGap({ source, scope, from, to, reason }: Gap) {
  return { source, scope, from: isoTime(from), to: isoTime(to), reason };
}

/**
 * An object as JSON text with exact decimals as numbers, which JSON.stringify would round.
 * Undefined decimals are left out.
 */
export function jsonWithDecimals(
  fields: object,
  decimals: Readonly<Record<string, string | undefined>>,
): string {
  const numbers = Object.entries(decimals).flatMap(([name, value]) =>
    value === undefined ? [] : [`${JSON.stringify(name)}:${value}`],
  );
  const head = JSON.stringify(fields).slice(0, -1);
  return `${head}${head === '{' ? '' : ','}${numbers.join(',')}}`;
}
