import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { sortedEntries } from '../../model/bytewise.ts';
import { CSV_PARAMETERS, readCsvFile, sendCsv } from '../csv.ts';
import type { Scans } from '../limits.ts';
import {
  FILTER_PARAMETERS,
  RANGE_PARAMETERS,
  readChoice,
  readCount,
  readFilter,
  readQuery,
  readTimeRange,
} from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { goneSignal, streamLines } from '../stream-lines.ts';
import { eventsIn } from '../../billing/usage/events-in.ts';

const COLUMNS = [
  'id',
  'tenant',
  'metric',
  'quantity',
  'unit',
  'window_start',
  'window_end',
  'region',
  'project',
  'sku',
  'resource_id',
  'dimensions',
  'source',
] as const;

/** GET /api/v1/events: the ledger's events whose window starts in a range, as NDJSON or CSV. */
export function eventsExportRoute({ ledger, totals, clock }: RouteContext, scans: Scans): Route {
  return {
    method: 'get',
    path: '/api/v1/events',
    access: 'read',
    tenantScope: 'filtered',
    summary: 'export events as NDJSON or CSV',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [
          ...RANGE_PARAMETERS,
          ...FILTER_PARAMETERS,
          'limit',
          'format',
          ...CSV_PARAMETERS,
        ]);
        const range = readTimeRange(query, clock.now());
        const filter = readFilter(query);
        const bounds = { min: 1, max: Number.MAX_SAFE_INTEGER, fallback: Number.MAX_SAFE_INTEGER };
        const limit = readCount(query, 'limit', bounds);
        const format = readChoice(query, 'format', ['ndjson', 'csv']);
        const file = readCsvFile(query, range, clock.now());
        scans.hold(response);
        const wanted = { range, tenant: query.get('tenant'), signal: goneSignal(response) };
        const events = take(eventsIn(ledger, totals(), wanted), filter, limit);
        if (format === 'csv') {
          const rows = csvRows(events);
          const table = { kind: 'events', columns: COLUMNS, figures: ['quantity'], rows };
          await sendCsv(response, file, table);
          return;
        }
        response.attachment(file.name('events', 'ndjson')).type('application/x-ndjson');
        await streamLines(response, jsonLines(events));
      },
    ],
  };
}

async function* take(
  stored: AsyncIterable<{ readonly event: UsageEvent }>,
  filter: (event: UsageEvent) => boolean,
  limit: number,
): AsyncGenerator<UsageEvent> {
  let taken = 0;
  for await (const { event } of stored) {
    if (!filter(event)) continue;
    yield event;
    taken += 1;
    if (taken === limit) return;
  }
}

async function* jsonLines(events: AsyncIterable<UsageEvent>): AsyncGenerator<string> {
  for await (const event of events) yield `${encodeEvent(event)}\n`;
}

async function* csvRows(events: AsyncIterable<UsageEvent>): AsyncGenerator<string[]> {
  for await (const event of events) yield COLUMNS.map((column) => cell(event, column));
}

function cell(event: UsageEvent, column: (typeof COLUMNS)[number]): string {
  if (column !== 'dimensions') return event[column] ?? '';
  return sortedEntries(event.dimensions ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(';');
}
