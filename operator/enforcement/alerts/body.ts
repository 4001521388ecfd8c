import type { RawObject } from '../../kubernetes/source.ts';

const LONGEST_ID = 256;

/** The JSON object in a signed body; undefined when it is none. */
export function jsonObject(body: Uint8Array): RawObject | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as RawObject)
      : undefined;
  } catch {
    return undefined;
  }
}

/** An id of somebody else: a text of at most 256 characters without control characters; undefined otherwise. */
export function idAt(parent: RawObject, key: string): string | undefined {
  const value = parent[key];
  if (typeof value !== 'string' || value === '' || value.length > LONGEST_ID) return undefined;
  return /[\p{Cc}\u2028\u2029]/u.test(value) ? undefined : value;
}

/** Unix seconds in milliseconds since the epoch. */
export function secondsAt(parent: RawObject, key: string): number | undefined {
  const value = parent[key];
  return typeof value === 'number' && Number.isFinite(value) && value > 0
    ? value * 1000
    : undefined;
}

/** An RFC 3339 time in milliseconds since the epoch. */
export function instantAt(parent: RawObject, key: string): number | undefined {
  const value = parent[key];
  const parsed = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}
