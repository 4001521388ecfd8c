import type { Request } from 'express';
import { quote } from '../model/validate-event.ts';
import type { EventFilter } from '../billing/usage/usage-sums.ts';
import type { TimeRange } from '../model/window.ts';
import { isDirected } from './fleet/directed.ts';
import { badRequest } from './problem.ts';
import { tenantToFilter } from './scope.ts';

/** The query parameters of a request, each known and given once. */
export type Query = ReadonlyMap<string, string>;

/**
 * Reads the query parameters. Throws 400 for an unknown one: a filter with a typing error would
 * bill everybody. For a client of one tenant `tenant` is that tenant; another one throws 403.
 */
export function readQuery(request: Request, known: readonly string[]): Query {
  const query = new Map<string, string>();
  for (const [name, value] of Object.entries(request.query)) {
    if (name === 'cluster' && isDirected(request)) continue;
    if (!known.includes(name)) {
      const use = known.length === 0 ? 'this path takes none' : `use one of ${known.join(', ')}`;
      throw badRequest(`unknown query parameter: ${quote(name)}: ${use}`);
    }
    if (typeof value !== 'string') {
      throw badRequest(`query parameter given more than once: ${name}: give it once`);
    }
    if (value !== '') query.set(name, value);
  }
  const tenant = known.includes('tenant')
    ? tenantToFilter(request, query.get('tenant'))
    : undefined;
  if (tenant !== undefined) query.set('tenant', tenant);
  return query;
}

export const RANGE_PARAMETERS = ['from', 'to'] as const;

const HOUR_MS = 3_600_000;
const EARLY_MS = 5 * 60_000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const DATE_TIME = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

/**
 * `from` and `to` as RFC 3339 or YYYY-MM-DD (UTC). The default is the current UTC month up to the
 * end of the hour in five minutes. No window starts later: ingest accepts windows that end at most
 * five minutes ahead.
 */
export function readTimeRange(query: Query, now: number): TimeRange {
  const month = new Date(now);
  const from = readTime(query, 'from') ?? Date.UTC(month.getUTCFullYear(), month.getUTCMonth());
  const to = readTime(query, 'to') ?? endOfHour(now + EARLY_MS);
  if (to > from) return { from, to };
  throw badRequest(
    `to must be after from: to: ${quote(new Date(to).toISOString())}: give a later one`,
  );
}

const DAY_MS = 86_400_000;

/** `from` and `to` as complete UTC days. Default: yesterday, or the day that begins at `from`. */
export function readCompleteDays(query: Query, now: number): TimeRange {
  const from = readTime(query, 'from') ?? Math.floor(now / DAY_MS) * DAY_MS - DAY_MS;
  const to = readTime(query, 'to') ?? from + DAY_MS;
  for (const [name, at] of [
    ['from', from],
    ['to', to],
  ] as const) {
    if (at % DAY_MS === 0) continue;
    throw badRequest(
      `not the beginning of a UTC day: ${name}: ${quote(query.get(name))}: use one such as 2026-11-21`,
    );
  }
  if (to > from) return { from, to };
  throw badRequest(
    `to must be after from: to: ${quote(new Date(to).toISOString())}: give a later one`,
  );
}

function endOfHour(ms: number): number {
  return Math.ceil(ms / HOUR_MS) * HOUR_MS;
}

function readTime(query: Query, name: string): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  const at = DAY.test(text) || DATE_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at) && isRealDay(text)) return at;
  throw badRequest(
    `invalid time: ${name}: ${quote(text)}: use one such as 2026-11-21T09:00:00Z, or a day such as 2026-11-21`,
  );
}

/** False for days such as 31 November, which Date.parse reads as 1 December. */
function isRealDay(text: string): boolean {
  const day = text.slice(0, 10);
  const at = Date.parse(day);
  return Number.isFinite(at) && new Date(at).toISOString().startsWith(day);
}

/** A path parameter, decoded. */
export function pathParameter(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === 'string' ? value : '';
}

/** A whole number of at least `min`, at most `max`; the fallback when it is not given. */
export function readCount(
  query: Query,
  name: string,
  bounds: { readonly min: number; readonly max: number; readonly fallback: number },
): number {
  const text = query.get(name);
  if (text === undefined) return bounds.fallback;
  const count = Number(text);
  if (/^\d{1,16}$/.test(text) && count >= bounds.min && count <= bounds.max) return count;
  throw badRequest(
    `not a whole number: ${name}: ${quote(text)}: use ${bounds.min} to ${bounds.max}`,
  );
}

/** One of `choices`; the first when the parameter is not given. */
export function readChoice<T extends string>(
  query: Query,
  name: string,
  choices: readonly [T, ...T[]],
): T {
  const text = query.get(name);
  if (text === undefined) return choices[0];
  const choice = choices.find((candidate) => candidate === text);
  if (choice !== undefined) return choice;
  throw badRequest(`unknown ${name}: ${quote(text)}: use ${choices.join(' or ')}`);
}

/** Filters that exports and sums share; `cluster` is the dimension `tenant_cluster`. */
export const FILTER_PARAMETERS = [
  'tenant',
  'metric',
  'project',
  'region',
  'sku',
  'cluster',
] as const;

export function readFilter(query: Query): EventFilter {
  const wanted = FILTER_PARAMETERS.flatMap((name) => {
    const value = query.get(name);
    return value === undefined ? [] : [{ name, value }];
  });
  return (event) =>
    wanted.every(({ name, value }) =>
      name === 'cluster' ? event.dimensions?.['tenant_cluster'] === value : event[name] === value,
    );
}
