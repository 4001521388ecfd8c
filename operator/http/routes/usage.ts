import type { Request, Response } from 'express';
import { isGeneralDimension } from '../../model/catalog.ts';
import { signedFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import { RESERVED_KEYS } from '../../model/event-schema.ts';
import { least } from '../../model/extremes.ts';
import { quote } from '../../model/validate-event.ts';
import { CSV_PARAMETERS, type CsvFile, readCsvFile, sendCsv } from '../csv.ts';
import type { Scans } from '../limits.ts';
import { isoTime, jsonWithDecimals } from '../presentation.ts';
import { badRequest, tryLater } from '../problem.ts';
import {
  FILTER_PARAMETERS,
  type Query,
  RANGE_PARAMETERS,
  readChoice,
  readFilter,
  readQuery,
  readTimeRange,
} from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { goneSignal, sendRows } from '../stream-lines.ts';
import { SharedAnswers } from '../shared-answers.ts';
import { eventsIn } from '../../billing/usage/events-in.ts';
import {
  UsageSums,
  GROUP_FIELDS,
  type Summands,
  type UsageRow,
} from '../../billing/usage/usage-sums.ts';
import type { TimeRange } from '../../model/window.ts';
import type { TotalsOutcome, TotalsQuery } from '../../billing/usage/usage-totals.ts';

/** Rows that one answer may have. */
export const MAX_ROWS = 100_000;

const MAX_KEYS = 8;
const DIMENSION_KEY = /^[a-z][a-z0-9_]{0,63}$/;
const TIME_KEYS = ['day', 'hour', 'window'];
/** The longest range by window: windows are summed event by event. */
const LONGEST_BY_WINDOW_MS = 25 * 3_600_000;
/** Keys that every row has anyway. */
const IMPLIED_KEYS = ['metric', 'unit'];
const FIELDS: readonly string[] = GROUP_FIELDS;
const RESERVED: readonly string[] = RESERVED_KEYS;

/** Answers cached for readers that accept an older one. */
const SHARED_ANSWERS = 64;
const LONGEST_AGE_S = 300;

/** The note when part of the range is no longer stored. */
const PARTIAL =
  'some of the range is no longer kept: whole UTC hours are kept for 35 days, whole days for 400 days, parts of hours for RETENTION';

interface UsageAnswer {
  readonly range: TimeRange;
  readonly groupBy: readonly string[];
  readonly events: number;
  readonly rows: readonly UsageRow[];
  /** When measuring began. */
  readonly since: number | undefined;
  readonly note?: string;
  readonly warnings?: readonly string[];
}

/** GET /api/v1/usage: exact sums of the events whose window starts in a range. */
export function usageRoute(context: RouteContext, scans: Scans): Route {
  const { clock, ledger } = context;
  const shared = new SharedAnswers<UsageAnswer>(clock, SHARED_ANSWERS);
  return {
    method: 'get',
    path: '/api/v1/usage',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'sums by tenant, sku, day, dimension…, as JSON or CSV',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [
          ...RANGE_PARAMETERS,
          ...FILTER_PARAMETERS,
          'group_by',
          'format',
          ...CSV_PARAMETERS,
        ]);
        const range = readTimeRange(query, clock.now());
        const groupBy = readGroupBy(query.get('group_by'));
        refuseLongByWindow(groupBy, range);
        const format = readChoice(query, 'format', ['json', 'csv']);
        const file = readCsvFile(query, range, clock.now());
        const make = async (signal: AbortSignal): Promise<UsageAnswer> => {
          scans.hold(response);
          const sums = new UsageSums(groupBy, MAX_ROWS);
          const outcome = await addUsage(context, sums, {
            range,
            filter: readFilter(query),
            tenant: query.get('tenant'),
            hourly: groupBy.includes('hour'),
            byWindow: groupBy.includes('window'),
            // A file has no place for the note.
            mayLag: format === 'json',
            signal,
          });
          if (outcome.kind === 'full') throw tooManyRows();
          if (outcome.kind === 'rebuilding') throw rebuilding();
          const note = noteOf([outcome]);
          const rows = sums.rows();
          const warnings = emptyKeys(context, groupBy, rows);
          const since = await measuredSince(context);
          return { range, groupBy, events: sums.events, rows, since, note, ...warnings };
        };
        const requested = { query, range, groupBy, head: ledger.head() };
        const answer = await sharedOrMade({
          request,
          response,
          requested,
          answers: shared,
          make,
        });
        const [warning] = answer.warnings ?? [];
        if (format === 'csv' && warning !== undefined) {
          throw badRequest(`${warning}: leave it out, or request JSON`);
        }
        await (format === 'csv' ? sendTable(response, answer, file) : sendJson(response, answer));
      },
    ],
  };
}

/** Returns a cached answer if the reader accepts one (`Cache-Control: max-age`), or a new one. */
export function sharedOrMade<T extends { readonly rows: readonly unknown[] }>({
  request,
  response,
  requested: { query, range, groupBy, head },
  answers,
  make,
}: {
  readonly request: Request;
  readonly response: Response;
  readonly requested: {
    readonly query: Query;
    readonly range: TimeRange;
    readonly groupBy: readonly string[];
    /** The sequence number of the newest event. */
    readonly head: number;
  };
  readonly answers: SharedAnswers<T>;
  readonly make: (signal: AbortSignal) => Promise<T>;
}): Promise<T> {
  const maxAgeMs = readMaxAge(request);
  if (maxAgeMs <= 0) return make(goneSignal(response));
  const selection = selectionOf(query);
  const key = JSON.stringify([tenantOf(request) ?? null, range.from, range.to, groupBy, selection]);
  // Others may wait for this answer, so it does not stop when this client disconnects.
  return answers.get(key, { head, maxAgeMs }, () => make(new AbortController().signal));
}

/** Throws 400 for windows of a long range. */
export function refuseLongByWindow(groupBy: readonly string[], { from, to }: TimeRange): void {
  if (!groupBy.includes('window') || to - from <= LONGEST_BY_WINDOW_MS) return;
  throw badRequest(
    'too long a range by window: from, to: use at most 25 hours, or "hour" or "day"',
  );
}

/** The keys of `group_by`, a comma list; `tenant` when it is not given. Throws 400. */
export function readGroupBy(text: string | undefined): readonly string[] {
  if (text === undefined) return ['tenant'];
  const keys = [...new Set(text.split(',').map((key) => key.trim()))].filter(
    (key) => !IMPLIED_KEYS.includes(key),
  );
  for (const key of keys) if (!isGroupKey(key)) throw unknownKey(key);
  if (keys.length <= MAX_KEYS) return keys;
  throw badRequest(`too many keys: group_by: ${keys.length}: use at most ${MAX_KEYS}`);
}

function isGroupKey(key: string): boolean {
  if (FIELDS.includes(key) || TIME_KEYS.includes(key)) return true;
  return DIMENSION_KEY.test(key) && !RESERVED.includes(key);
}

function unknownKey(key: string): Error {
  const known = [...FIELDS, ...TIME_KEYS].join(', ');
  return badRequest(`unknown key: group_by: ${quote(key)}: use ${known} or a dimension`);
}

/**
 * Warns of keys that may be misspelled: no metric declares them, and no event of the answer has
 * them. They are not refused, because clients may push undeclared dimensions. `isAnswerKey` is true
 * for keys that the answer has and events have not.
 */
export function emptyKeys(
  { views }: RouteContext,
  groupBy: readonly string[],
  rows: readonly Pick<UsageRow, 'keys'>[],
  isAnswerKey: (key: string) => boolean = () => false,
): { readonly warnings?: readonly string[] } {
  const { metrics } = views.catalog();
  const warnings = groupBy.flatMap((key, index) => {
    const isKnown =
      isAnswerKey(key) ||
      FIELDS.includes(key) ||
      TIME_KEYS.includes(key) ||
      isGeneralDimension(key) ||
      metrics.some(({ dimensions }) => dimensions.includes(key)) ||
      rows.some(({ keys }) => keys[index] !== '');
    if (isKnown) return [];
    return `no event of the range has it, and no metric declares it: group_by: ${quote(key)}`;
  });
  return warnings.length === 0 ? {} : { warnings };
}

/** How old the answer may be, in milliseconds, by `Cache-Control: max-age`. Dashboards send it. */
export function readMaxAge(request: Request): number {
  const [, seconds = '0'] =
    /\bmax-age=(\d{1,6})\b/.exec(request.headers['cache-control'] ?? '') ?? [];
  return Math.min(Number(seconds), LONGEST_AGE_S) * 1000;
}

export function tooManyRows(): Error {
  return badRequest(
    `more than ${MAX_ROWS} rows: group_by: use fewer keys, filters or a short range`,
  );
}

export function rebuilding(): Error {
  return tryLater(503, 60, 'usage sums are being rebuilt: see the log: try again in a minute');
}

/** When measuring began, as far as that is still known; undefined before the first event. */
export async function measuredSince({
  ledger,
  totals,
}: Pick<RouteContext, 'ledger' | 'totals'>): Promise<number | undefined> {
  const since = await totals()?.since();
  if (since !== undefined) return since;
  const page = await ledger.read(ledger.lowWater(), 1);
  const [first] = page.kind === 'failed' ? [] : page.events;
  return first === undefined ? undefined : Date.parse(first.event.window_start);
}

/** The filters and the format, which are part of the key of a cached answer. */
export function selectionOf(query: Query): readonly (string | null)[] {
  return [...FILTER_PARAMETERS, 'format'].map((name) => query.get(name) ?? null);
}

/** The `note` of an answer whose sums are incomplete; undefined when they are complete. */
export function noteOf(
  outcomes: readonly Extract<TotalsOutcome, { kind: 'added' }>[],
): string | undefined {
  const summedUpTo = least(outcomes.flatMap((outcome) => outcome.summedUpTo ?? []));
  const notes = outcomes.some(({ partial }) => partial) ? [PARTIAL] : [];
  if (summedUpTo !== Infinity) {
    notes.push(
      `summed up to ${isoTime(summedUpTo)}: sums are catching up with the ledger, try again in a minute`,
    );
  }
  return notes.length === 0 ? undefined : notes.join('; ');
}

/** Adds usage from the stored sums, or from the events of the ledger where no sums are stored. */
export async function addUsage(
  { ledger, totals }: Pick<RouteContext, 'ledger' | 'totals'>,
  sums: Summands,
  query: TotalsQuery & { readonly byWindow?: boolean },
): Promise<TotalsOutcome> {
  const stored = totals();
  if (stored !== undefined && query.byWindow !== true) return stored.addTo(sums, query);
  const { range, filter } = query;
  for await (const { event } of eventsIn(ledger, stored, query)) {
    if (filter(event) && !sums.add(event)) return { kind: 'full' };
  }
  return { kind: 'added', partial: range.from < (ledger.stats().oldestAt ?? 0) };
}

function sendTable(response: Response, answer: UsageAnswer, file: CsvFile): Promise<void> {
  const rows = answer.rows.map(({ keys, metric, unit, quantity, events }) => [
    ...keys,
    metric,
    unit,
    quantity,
    String(events),
  ]);
  const columns = [...answer.groupBy, 'metric', 'unit', 'quantity', 'events'];
  return sendCsv(response, file, { kind: 'usage', columns, figures: ['quantity'], rows });
}

function sendJson(response: Response, answer: UsageAnswer): Promise<void> {
  const { range, groupBy, events, rows, since, note, warnings } = answer;
  const head = {
    from: new Date(range.from).toISOString(),
    to: new Date(range.to).toISOString(),
    group_by: groupBy,
    events,
    measured_since: isoTime(since),
    note,
    warnings,
  };
  const texts = rows.values().map((row) => rowJson(groupBy, row));
  return sendRows(response, head, texts, { totals: totalsOf(rows) });
}

function rowJson(groupBy: readonly string[], { metric, unit, events, ...row }: UsageRow): string {
  const keys = groupBy.map((key, index) => [key, row.keys[index]]);
  const fields = { ...Object.fromEntries(keys), metric, unit, events };
  return jsonWithDecimals(fields, { quantity: row.quantity });
}

/** The total of each metric and unit, so that no reader has to add. */
function totalsOf(rows: readonly UsageRow[]): readonly string[] {
  const totals = new Map<string, { metric: string; unit: string; events: number; nanos: bigint }>();
  for (const { metric, unit, quantity, events } of rows) {
    const key = `${metric}\0${unit}`;
    const total = totals.get(key) ?? { metric, unit, events: 0, nanos: 0n };
    total.events += events;
    total.nanos += nanosFromDecimal(quantity);
    totals.set(key, total);
  }
  return [...totals.values()].map(({ nanos, ...total }) =>
    jsonWithDecimals(total, { quantity: signedFromNanos(nanos) }),
  );
}
