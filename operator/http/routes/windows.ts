import { quote } from '../../model/validate-event.ts';
import { isoTime, showGap, snakeCaseKeys } from '../presentation.ts';
import { Problem } from '../problem.ts';
import { pathParameter, readCount, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import type { WindowReportView } from '../views.ts';

const PAGE = { min: 1, max: 1000, fallback: 100 };

/** GET /api/v1/windows and /api/v1/windows/{end}: reports of the last windows, newest first. */
export function windowRoutes({ views }: RouteContext): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/api/v1/windows',
      access: 'read',
      hub: 'all',
      summary: 'reports of the windows closed last',
      handlers: [
        (request, response) => {
          const limit = readCount(readQuery(request, ['limit']), 'limit', PAGE);
          const windows = views.metering.windows().take(limit).map(showWindow);
          response.json({ windows: [...windows] });
        },
      ],
    },
    {
      method: 'get',
      path: '/api/v1/windows/{end}',
      access: 'read',
      hub: 'all',
      summary: 'the report of one window',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          const end = pathParameter(request, 'end');
          const at = Date.parse(end);
          const report = views.metering.windows().find((window) => window.end === at);
          if (report === undefined) {
            throw new Problem(404, `no report of this window: ${quote(end)}: see /api/v1/windows`);
          }
          response.json(showWindow(report));
        },
      ],
    },
  ];
}

function showWindow({ start, end, events, gaps, details }: WindowReportView) {
  return {
    ...snakeCaseKeys(details ?? {}),
    window_start: isoTime(start),
    window_end: isoTime(end),
    events,
    gaps: gaps.map(showGap),
  };
}
