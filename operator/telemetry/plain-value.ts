import { Secret } from '../model/secret.ts';

const MAX_DEPTH = 6;
const MAX_ITEMS = 100;
const MAX_CHARACTERS = 4096;

type Scrub = (text: string) => string;

/**
 * A value made fit for a log line: plain JSON, bounded in depth and length, errors with their causes,
 * loops cut, secrets masked by `scrub`.
 */
export function plainValue(value: unknown, scrub: Scrub, depth = 0): unknown {
  if (typeof value === 'string') return shorten(value, scrub);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'boolean' || value === null || value === undefined) return value;
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (typeof value !== 'object') return '[function]';
  if (value instanceof Secret) return String(value);
  if (value instanceof Date) return Number.isFinite(value.getTime()) ? value.toISOString() : null;
  if (depth >= MAX_DEPTH) return '…';
  if (value instanceof Error) return plainError(value, scrub, depth);
  if (value instanceof Map) return plainEntries([...value.entries()], scrub, depth);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].slice(0, MAX_ITEMS).map((item) => plainValue(item, scrub, depth + 1));
  }
  return plainEntries(Object.entries(value), scrub, depth);
}

function plainError(error: Error, scrub: Scrub, depth: number): object {
  return {
    name: error.name,
    message: shorten(error.message, scrub),
    ...('code' in error ? { code: plainValue(error.code, scrub, depth + 1) } : {}),
    ...(error.stack === undefined ? {} : { stack: shorten(error.stack, scrub) }),
    ...(error.cause === undefined ? {} : { cause: plainValue(error.cause, scrub, depth + 1) }),
  };
}

function plainEntries(
  entries: readonly (readonly [unknown, unknown])[],
  scrub: Scrub,
  depth: number,
): object {
  return Object.fromEntries(
    entries
      .slice(0, MAX_ITEMS)
      .map(([key, value]) => [scrub(String(key)), plainValue(value, scrub, depth + 1)]),
  );
}

/** Scrubs first: half a secret would not be recognised. */
function shorten(text: string, scrub: Scrub): string {
  const clean = scrub(text);
  if (clean.length <= MAX_CHARACTERS) return clean;
  return `${clean.slice(0, MAX_CHARACTERS).toWellFormed()}…`;
}
