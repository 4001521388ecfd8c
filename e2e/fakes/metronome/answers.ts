import type { FakeResponse } from '../fake-server.ts';

/** Error answers in Metronome's form: a message, and hardly ever a code. */
export const UNAUTHORIZED: FakeResponse = { status: 401, body: { message: 'Unauthorized' } };

export function ok(data: unknown): FakeResponse {
  return { status: 200, body: { data } };
}

/** Ingest answers with an empty body. */
export const ACCEPTED: FakeResponse = { status: 200, body: '' };

export function refused(status: 400 | 404 | 409, message: string): FakeResponse {
  return { status, body: { message } };
}

/** Returns one page of a list, by the cursor in the query. */
export function page(items: readonly unknown[], query: URLSearchParams): FakeResponse {
  const limit = Number(query.get('limit') ?? 100);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) {
    return refused(400, 'limit must be between 1 and 100');
  }
  const start = Number(query.get('next_page') ?? 0);
  if (!Number.isInteger(start)) return refused(400, 'next_page is not a cursor');
  const end = start + limit;
  const next_page = end < items.length ? String(end) : null;
  return { status: 200, body: { data: items.slice(start, end), next_page } };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the text of a field; undefined when it is absent, empty or no text. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function texts(value: unknown): readonly string[] {
  return Array.isArray(value)
    ? (value as unknown[]).filter((item) => typeof item === 'string')
    : [];
}

export function objects(value: unknown): readonly Record<string, unknown>[] {
  return Array.isArray(value) ? (value as unknown[]).filter(isObject) : [];
}

/** Returns an RFC 3339 text with a year of four digits as milliseconds since the epoch. */
export function instant(value: unknown): number | undefined {
  if (typeof value !== 'string' || !/^\d{4}-\d{2}-\d{2}T/.test(value)) return undefined;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : at;
}
