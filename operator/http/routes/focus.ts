import type { FileEntry } from '../../billing/focus/manifest.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { readCsvFile } from '../csv.ts';
import { FileCount, focusLines } from '../focus-csv.ts';
import { focusMonth } from '../focus-month.ts';
import type { Scans } from '../limits.ts';
import { readChoice, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { goneSignal, streamLines } from '../stream-lines.ts';
import { readMonth } from './months.ts';

/** GET /api/v1/focus: the charges of a month as FOCUS rows (docs/reference/focus.md). */
export function focusRoute(context: RouteContext, scans: Scans): Route {
  const { clock } = context;
  return {
    method: 'get',
    path: '/api/v1/focus',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'the charges of a month as a FOCUS file, with a manifest',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, ['month', 'tenant', 'grain', 'format', 'version']);
        const [year, index] = readMonth(query.get('month') ?? '', clock.now());
        const grain = readChoice(query, 'grain', ['hour', 'day']);
        const format = readChoice(query, 'format', ['csv', 'manifest']);
        const focusVersion = readChoice(query, 'version', ['1.2', '1.4']);
        const range = { from: Date.UTC(year, index), to: Date.UTC(year, index + 1) };
        const month = { ...range, grain, focusVersion };
        const { file, manifest } = await focusMonth(context, {
          month,
          tenant: query.get('tenant'),
          isConfined: tenantOf(request) !== undefined,
          signal: goneSignal(response),
        });
        scans.hold(response);
        const name = readCsvFile(query, month, clock.now()).name(`focus-${focusVersion}`, 'csv');
        const lines = focusLines(file.rows(), focusVersion, new TimeSlice(clock));
        if (format === 'csv') {
          response.attachment(name).type('text/csv');
          await streamLines(response, lines);
          return;
        }
        const entry = await countedEntry(lines, name);
        response.attachment(name.replace(/csv$/, 'json')).json(manifest([entry]));
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
