import { FocusFile } from '../../billing/focus/focus-file.ts';
import { type FileEntry, FOCUS_VERSION, manifestOf } from '../../billing/focus/manifest.ts';
import { focusNames } from '../../billing/focus/names.ts';
import type { AddUsage } from '../../billing/focus/period-usage.ts';
import type { BillingMonth } from '../../billing/focus/rows.ts';
import { pricesInForce } from '../../billing/usage/prices-in-force.ts';
import { quote } from '../../model/quote.ts';
import { PAST_GAPS_MS } from '../../metering/windows/gaps.ts';
import type { TimeRange } from '../../model/window.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { readCsvFile } from '../csv.ts';
import { FileCount, focusLines } from '../focus-csv.ts';
import type { Scans } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { badRequest, tryLater } from '../problem.ts';
import { type Query, readChoice, readFilter, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { goneSignal, streamLines } from '../stream-lines.ts';
import { pricesUnread } from './costs.ts';
import { gapsIn, knownGaps } from './gaps.ts';
import { readMonth } from './months.ts';
import { addUsage, measuredSince, rebuilding } from './usage.ts';

const KIND = `focus-${FOCUS_VERSION}`;

/** GET /api/v1/focus: the charges of a month as FOCUS rows (docs/reference/focus.md). */
export function focusRoute(context: RouteContext, scans: Scans): Route {
  const { clock, views } = context;
  return {
    method: 'get',
    path: '/api/v1/focus',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'the charges of a month as a FOCUS file, with a manifest',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, ['month', 'tenant', 'grain', 'format']);
        const [year, index] = readMonth(query.get('month') ?? '', clock.now());
        const grain = readChoice(query, 'grain', ['hour', 'day']);
        const format = readChoice(query, 'format', ['csv', 'manifest']);
        const month = { from: Date.UTC(year, index), to: Date.UTC(year, index + 1), grain };
        if (!views.pricesKnown()) throw pricesUnread();
        if (!views.discovery.known()) throw tenantsUnknown();
        const since = await measuredSince(context);
        if (since === undefined || since >= month.to) throw notMeasured(query, since);
        scans.hold(1, response);
        const file = await focusFile(context, query, month, goneSignal(response));
        const name = readCsvFile(query, month, clock.now()).name(KIND, 'csv');
        const slice = new TimeSlice(clock);
        if (format === 'csv') {
          response.attachment(name).type('text/csv');
          await streamLines(response, focusLines(file, slice));
          return;
        }
        const entry = await countedEntry(focusLines(file, slice), name);
        const tenant = query.get('tenant');
        const isConfined = tenantOf(request) !== undefined;
        response.attachment(name.replace(/csv$/, 'json')).json(
          manifestOf({
            version: context.version,
            month,
            tenant,
            closed: isClosed(context, month),
            since,
            now: clock.now(),
            files: [entry],
            sums: file.sums(),
            gaps: areGapsKnown(month, clock.now())
              ? gapsIn(knownGaps(context), { range: month, tenant, isConfined })
              : undefined,
          }),
        );
      },
    ],
  };
}

/** Describes the file that a request for CSV gets, as long as the ledger does not change. */
async function countedEntry(text: AsyncIterable<string>, name: string): Promise<FileEntry> {
  const count = new FileCount();
  let lines = 0;
  for await (const line of text) {
    count.add(Buffer.from(line));
    lines += 1;
  }
  return count.entry(name, lines - 1);
}

function areGapsKnown({ from }: TimeRange, now: number): boolean {
  return from >= now - PAST_GAPS_MS;
}

/** Whether every window of the month is in the ledger. */
function isClosed({ ledger }: RouteContext, { to }: TimeRange): boolean {
  return (ledger.stats().lastWindowEnd ?? 0) >= to;
}

async function focusFile(
  context: RouteContext,
  query: Query,
  month: BillingMonth,
  signal: AbortSignal,
): Promise<FocusFile> {
  const { views, ledger } = context;
  const settings = views.settings();
  const catalog = views.catalog();
  const tenants = new Map(views.discovery.tenants().map((tenant) => [tenant.id, tenant]));
  const clusters = new Map(views.discovery.clusters().map(({ id, name }) => [id, name]));
  return new FocusFile({
    month,
    closed: isClosed(context, month),
    add: usageOf(context, query, signal),
    pricesOf: await pricesInForce(ledger, settings, [...tenants.values()]),
    isCharged: (metric) => catalog.find(metric)?.informational !== true,
    names: focusNames(settings.focus, settings.portal.name, settings.identity.clusterName, {
      metric: (code) => catalog.find(code),
      tenant: (id) => tenants.get(id)?.displayName,
      cluster: (id) => clusters.get(id),
    }),
  });
}

/** Reads usage from the stored sums. Throws where they do not have all of it. */
function usageOf(context: RouteContext, query: Query, signal: AbortSignal): AddUsage {
  const tenant = query.get('tenant');
  const filter = readFilter(query);
  return async (sums, range, hourly) => {
    const wanted = { range, filter, tenant, hourly, mayLag: true, signal };
    const outcome = await addUsage(context, sums, wanted);
    if (outcome.kind === 'rebuilding') throw rebuilding();
    if (outcome.kind === 'full') throw new Error('focus: sums without a limit are full');
    if (outcome.partial) throw notStored(query, hourly);
    if (outcome.summedUpTo !== undefined) throw catchingUp();
  };
}

function notStored(query: Query, hourly: boolean): Error {
  const month = quote(query.get('month') ?? '');
  const fix = hourly ? 'add grain=day' : 'use a file that was written earlier';
  const kept = hourly ? 'hours are kept for 70 days' : 'days are kept for 400 days';
  return badRequest(
    `some usage of the month is no longer stored: month: ${month}: ${kept}; ${fix}`,
  );
}

function notMeasured(query: Query, since: number | undefined): Error {
  const month = quote(query.get('month') ?? '');
  const began = since === undefined ? 'there is no usage yet' : `it began on ${isoTime(since)}`;
  return badRequest(
    `nothing was measured in the month: month: ${month}: ${began}; use a later one`,
  );
}

function tenantsUnknown(): Error {
  return tryLater(503, 5, 'tenants have not been discovered yet: try again in a moment');
}

function catchingUp(): Error {
  return tryLater(503, 60, 'usage sums are catching up with the ledger: try again in a minute');
}
