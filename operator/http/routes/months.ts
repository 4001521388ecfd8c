import type { Response } from 'express';
import { quote } from '../../model/validate-event.ts';
import {
  type MonthRow,
  monthSpan,
  type MonthSpan,
  MonthSums,
} from '../../billing/usage/month-sums.ts';
import { CSV_PARAMETERS, type CsvFile, readCsvFile, sendCsv } from '../csv.ts';
import type { Scans } from '../limits.ts';
import { isoTime, jsonWithDecimals } from '../presentation.ts';
import { badRequest } from '../problem.ts';
import { FILTER_PARAMETERS, pathParameter, readChoice, readFilter, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { SharedAnswers } from '../shared-answers.ts';
import { sendRows } from '../stream-lines.ts';
import {
  addUsage,
  MAX_ROWS,
  measuredSince,
  noteOf,
  readGroupBy,
  readMaxAge,
  rebuilding,
  selectionOf,
  tooManyRows,
} from './usage.ts';

const MONTH = /^(\d{4})-(0[1-9]|1[0-2])$/;
const TIME_KEYS = ['day', 'hour', 'window'];
const SHARED_ANSWERS = 32;

interface MonthAnswer {
  readonly span: MonthSpan;
  readonly since: number | undefined;
  readonly rows: readonly MonthRow[];
  readonly note?: string;
}

/** GET /api/v1/months/{month}: a calendar month, the month before, and a forecast. */
export function monthRoute(context: RouteContext, scans: Scans): Route {
  const { clock, ledger } = context;
  const shared = new SharedAnswers<MonthAnswer>(clock, SHARED_ANSWERS);
  return {
    method: 'get',
    path: '/api/v1/months/{month}',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'a calendar month against the one before, with a forecast',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [
          ...FILTER_PARAMETERS,
          'group_by',
          'format',
          ...CSV_PARAMETERS,
        ]);
        const month = pathParameter(request, 'month');
        const [year, index] = readMonth(month, clock.now());
        const groupBy = readMonthKeys(query.get('group_by'));
        const format = readChoice(query, 'format', ['json', 'csv']);
        const range = { from: Date.UTC(year, index), to: Date.UTC(year, index + 1) };
        const file = readCsvFile(query, range, clock.now());
        const make = async (): Promise<MonthAnswer> => {
          scans.hold(response);
          const since = await measuredSince(context);
          const span = monthSpan(year, index, clock.now(), since);
          const sums = new MonthSums(span, groupBy, MAX_ROWS);
          const outcome = await addUsage(context, sums, {
            range: span.range,
            filter: readFilter(query),
            tenant: query.get('tenant'),
            hourly: false,
            mayLag: format === 'json',
            // Others may wait for this answer, so it is made to the end.
            signal: new AbortController().signal,
          });
          if (outcome.kind === 'full') throw tooManyRows();
          if (outcome.kind === 'rebuilding') throw rebuilding();
          return { span, since, rows: sums.rows(), note: noteOf([outcome]) };
        };
        const selection = selectionOf(query);
        const key = JSON.stringify([tenantOf(request) ?? null, month, groupBy, selection]);
        const freshness = { head: ledger.head(), maxAgeMs: readMaxAge(request) };
        const answer = await (freshness.maxAgeMs > 0 ? shared.get(key, freshness, make) : make());
        if (format === 'csv') return sendTable(response, file, groupBy, answer.rows);
        await sendJson(response, month, groupBy, answer);
      },
    ],
  };
}

/** Year and index of a calendar month that has begun, such as `2026-11`. Throws 400 for others. */
export function readMonth(text: string, now: number): readonly [year: number, index: number] {
  const [, year, month] = MONTH.exec(text) ?? [];
  if (month === undefined) {
    throw badRequest(`not a month: month: ${quote(text)}: use one such as 2026-11`);
  }
  const index = Number(month) - 1;
  if (Date.UTC(Number(year), index) <= now) return [Number(year), index];
  throw badRequest(`a month that has not begun: month: ${quote(text)}: use an earlier one`);
}

function readMonthKeys(text: string | undefined): readonly string[] {
  const keys = readGroupBy(text);
  const time = keys.find((key) => TIME_KEYS.includes(key));
  if (time === undefined) return keys;
  throw badRequest(
    `a month is not split by time: group_by: ${quote(time)}: see /api/v1/usage for that`,
  );
}

/** Unknown figures are empty cells. */
function sendTable(
  response: Response,
  file: CsvFile,
  groupBy: readonly string[],
  rows: readonly MonthRow[],
): Promise<void> {
  const figures = ['quantity', 'before', 'change', 'compared_with', 'forecast'];
  return sendCsv(response, file, {
    kind: 'month',
    columns: [...groupBy, 'metric', 'unit', ...figures, 'events'],
    figures,
    rows: rows.map(({ keys, metric, unit, quantity, events, ...row }) => {
      const { before = '', change = '', comparedWith = '', forecast = '' } = row;
      const known = [quantity, before, change, comparedWith, forecast];
      return [...keys, metric, unit, ...known, String(events)];
    }),
  });
}

function sendJson(
  response: Response,
  month: string,
  groupBy: readonly string[],
  { span, since, rows, note }: MonthAnswer,
): Promise<void> {
  const { from, to, until, before, completeDays } = span;
  const head = {
    month,
    from: isoTime(from),
    to: isoTime(to),
    until: isoTime(until),
    over: until === to,
    before: new Date(before).toISOString().slice(0, 7),
    complete_days: completeDays,
    group_by: groupBy,
    measured_since: isoTime(since),
    note,
  };
  return sendRows(
    response,
    head,
    rows.values().map((row) => rowJson(groupBy, row)),
  );
}

function rowJson(groupBy: readonly string[], row: MonthRow): string {
  const { keys, metric, unit, events, quantity, before, change, comparedWith, forecast } = row;
  const named = Object.fromEntries(groupBy.map((key, place) => [key, keys[place]]));
  return jsonWithDecimals(
    { ...named, metric, unit, events },
    { quantity, before, change, compared_with: comparedWith, forecast },
  );
}
