import type { Response } from 'express';
import type { UnknownDestination } from '../../delivery/delivery.ts';
import type { PriceReport } from '../../delivery/operations/price-watch.ts';
import type {
  DeletedDays,
  ReconcileOutcome,
  ReconcileRow,
} from '../../delivery/operations/reconcile.ts';
import { quote } from '../../model/validate-event.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { Scans } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { Problem } from '../problem.ts';
import {
  FILTER_PARAMETERS,
  RANGE_PARAMETERS,
  readFilter,
  readQuery,
  readCompleteDays,
} from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { goneSignal, streamLines } from '../stream-lines.ts';
import { UsageSums, type EventFilter } from '../../billing/usage/usage-sums.ts';
import type { TimeRange } from '../../model/window.ts';
import type { DestinationStatusView } from '../views.ts';
import { showPrices } from './destination-answer.ts';
import { addUsage, MAX_ROWS, rebuilding, tooManyRows } from './usage.ts';

const DAY_MS = 86_400_000;

const DELETED =
  'some events of the range may have been deleted by RETENTION: the ledger has less than was delivered';
const SUMMED =
  'the events of the first days are deleted: their sums are compared, and what was refused or withheld then shows as a difference; from here on every event is kept:';

interface Result {
  readonly destination: string;
  /** Where its prices differ from the price books, equal sums are billed as other amounts. */
  readonly prices: PriceReport | undefined;
  readonly error?: string;
  readonly rows: readonly ReconcileRow[];
}

/**
 * GET /api/v1/reconcile: the ledger's sums against what each destination has recorded or
 * acknowledged (docs/explanation/delivery.md#reconciliation).
 */
export function reconcileRoute(context: RouteContext, scans: Scans): Route {
  const { views, ledger, clock } = context;
  return {
    method: 'get',
    path: '/api/v1/reconcile',
    access: 'read',
    summary: 'ledger sums against what destinations have recorded, whole UTC days',
    handlers: [
      async (request, response) => {
        const known = [...RANGE_PARAMETERS, ...FILTER_PARAMETERS, 'destination'];
        const query = readQuery(request, known);
        const range = readCompleteDays(query, clock.now());
        const chosen = chosenOf(views.destinations.list(), query.get('destination'));
        const tenant = query.get('tenant');
        scans.hold(response);
        const signal = goneSignal(response);
        const filter = { selects: readFilter(query), tenant };
        const deleted = await sumDeleted(context, range, filter, signal);
        const requested = {
          ...range,
          tenant,
          deleted,
          selects: filter.selects,
        };
        const operations = ofOperator(views.destinations.operations);
        const results: Result[] = [];
        for (const { name: destination, prices } of chosen) {
          const outcome = await operations.reconcile(destination, requested, signal);
          results.push({ destination, prices, ...resultOf(outcome) });
        }
        const partial = range.from < ledger.stats().horizon ? DELETED : undefined;
        const note = deleted === undefined ? partial : `${SUMMED} ${isoTime(deleted.until)}`;
        await sendResults(response, range, note, results);
      },
    ],
  };
}

/** Sums of days whose events are deleted; undefined if none are, or none are stored. */
async function sumDeleted(
  context: RouteContext,
  { from, to }: TimeRange,
  { selects, tenant }: { readonly selects: EventFilter; readonly tenant: string | undefined },
  signal: AbortSignal,
): Promise<DeletedDays | undefined> {
  const { horizon } = context.ledger.stats();
  if (from >= horizon || context.totals() === undefined) return undefined;
  const until = Math.min(Math.ceil(horizon / DAY_MS) * DAY_MS, to);
  const selected = new Set<string>();
  const sums = new UsageSums(['tenant'], MAX_ROWS);
  const filter: EventFilter = (item) => {
    if (selects(item)) selected.add(`${item.tenant}\0${item.metric}`);
    return tenant === undefined || item.tenant === tenant;
  };
  const range = { from, to: until };
  const outcome = await addUsage(context, sums, { range, filter, tenant, hourly: false, signal });
  if (outcome.kind === 'full') throw tooManyRows();
  if (outcome.kind === 'rebuilding') throw rebuilding();
  const rows = sums
    .rows()
    .map(({ keys: [of = ''], metric, unit, quantity }) => ({ tenant: of, metric, unit, quantity }));
  return { until, sums: rows.filter((row) => selected.has(`${row.tenant}\0${row.metric}`)) };
}

function chosenOf(
  all: readonly DestinationStatusView[],
  wanted: string | undefined,
): readonly DestinationStatusView[] {
  if (wanted === undefined) return all;
  const found = all.filter(({ name }) => name === wanted);
  if (found.length > 0) return found;
  throw new Problem(404, `no destination ${quote(wanted)}: see /api/v1/destinations`);
}

function resultOf(
  outcome: ReconcileOutcome | UnknownDestination,
): Omit<Result, 'destination' | 'prices'> {
  if (outcome.kind === 'unknown-destination') return { error: 'it is gone', rows: [] };
  if (outcome.kind === 'failed') return { error: outcome.reason, rows: [] };
  const { rows } = outcome;
  const unknown = rows.find(({ difference }) => difference === undefined);
  return unknown === undefined ? { rows } : { error: unknown.note ?? 'not compared', rows };
}

/** Written row by row: the quantities are exact decimals, which JSON.stringify would round. */
async function sendResults(
  response: Response,
  { from, to }: TimeRange,
  note: string | undefined,
  results: readonly Result[],
): Promise<void> {
  const head = { from: isoTime(from), to: isoTime(to), note };
  response.type('application/json');
  await streamLines(
    response,
    (async function* lines() {
      yield `${JSON.stringify(head).slice(0, -1)},"results":[`;
      for (const [index, { destination, prices, error, rows }] of results.entries()) {
        const ok = error === undefined && rows.every(matches);
        const about = JSON.stringify({
          destination,
          ok,
          error,
          prices: prices && showPrices(prices),
        });
        yield `${index === 0 ? '' : ','}${about.slice(0, -1)},"rows":[`;
        for (const [place, row] of rows.entries()) yield `${place === 0 ? '' : ','}${rowJson(row)}`;
        yield ']}';
      }
      yield ']}\n';
    })(),
  );
}

function rowJson(row: ReconcileRow): string {
  const { tenant, metric, note, reported, acknowledged, difference } = row;
  const numbers = [
    ['ledger', row.ledger],
    ['dead_lettered', row.deadLetters],
    ['parked', row.parked],
    ['withheld', row.withheld],
    ['pending', row.pending],
    ['expected', row.delivered],
    ...(reported === undefined ? [] : [['recorded', reported]]),
    ...(acknowledged === undefined ? [] : [['acknowledged', acknowledged]]),
    ...(difference === undefined ? [] : [['difference', difference]]),
  ].map(([name, value]) => `"${name}":${value}`);
  const compared = difference === undefined ? {} : { match: matches(row) };
  const fields = JSON.stringify({ tenant, metric, ...compared, note });
  return `${fields.slice(0, -1)},${numbers.join(',')}}`;
}

function matches({ difference }: ReconcileRow): boolean {
  return difference === '0';
}
