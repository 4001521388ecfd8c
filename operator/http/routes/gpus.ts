import { quote } from '../../model/validate-event.ts';
import { addGpus, gpusSince } from '../../billing/usage/gpu-totals.ts';
import { GPU_KEYS, type GpuKey, GpuSums, UNASSIGNED } from '../../billing/usage/gpu-sums.ts';
import { CSV_PARAMETERS, readCsvFile } from '../csv.ts';
import type { Scans } from '../limits.ts';
import { badRequest } from '../problem.ts';
import { RANGE_PARAMETERS, readChoice, readQuery, readTimeRange } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { goneSignal } from '../stream-lines.ts';
import { GPU_SENDERS } from './gpu-answer.ts';
import { MAX_ROWS, refuseLongByWindow, tooManyRows } from './usage.ts';

/** The note when part of the range is no longer stored. */
const PARTIAL =
  'some of the range is no longer kept: whole UTC hours are kept for 35 days, whole days for 400 days, windows for a day';

/** GET /api/v1/gpus: GPU-hours by tenant and model, delivered, healthy, reserved and in use. */
export function gpusRoute({ clock, ledger }: RouteContext, scans: Scans): Route {
  return {
    method: 'get',
    path: '/api/v1/gpus',
    access: 'read',
    tenantScope: 'filtered',
    summary:
      'GPUs delivered, healthy, reserved, in use and busy, by tenant and model, as JSON, CSV or NDJSON',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [
          ...RANGE_PARAMETERS,
          'tenant',
          'gpu_type',
          'group_by',
          'format',
          ...CSV_PARAMETERS,
        ]);
        const range = readTimeRange(query, clock.now());
        const groupBy = readKeys(query.get('group_by'));
        refuseLongByWindow(groupBy, range);
        const format = readChoice(query, 'format', ['json', 'csv', 'ndjson']);
        const file = readCsvFile(query, range, clock.now());
        const [tenant, model] = [query.get('tenant'), query.get('gpu_type')];
        const mayBeNobodys = tenantOf(request) === undefined && tenant === UNASSIGNED;
        scans.hold(response);
        const sums = new GpuSums(groupBy, MAX_ROWS);
        const outcome = await addGpus(ledger, sums, {
          range,
          filter: (row) =>
            (model === undefined || row.gpuType === model) &&
            (tenant === undefined ||
              row.tenant === tenant ||
              (mayBeNobodys && row.tenant === undefined)),
          by: finestOf(groupBy),
          now: clock.now(),
          signal: goneSignal(response),
        });
        if (outcome.kind === 'full') throw tooManyRows();
        await GPU_SENDERS[format](response, {
          file,
          range,
          groupBy,
          rows: sums.rows(),
          totals: sums.totals(),
          ofEverybody: tenant === undefined,
          since: await gpusSince(ledger),
          note: outcome.partial ? PARTIAL : undefined,
        });
      },
    ],
  };
}

function finestOf(groupBy: readonly GpuKey[]): 'window' | 'hour' | 'day' {
  if (groupBy.includes('window')) return 'window';
  return groupBy.includes('hour') ? 'hour' : 'day';
}

/** The keys of `group_by`, a comma list; tenant and model when it is not given. Throws 400. */
function readKeys(text = 'tenant,gpu_type'): readonly GpuKey[] {
  const names = [...new Set(text.split(',').map((name) => name.trim()))];
  return names.map((name) => {
    const key = GPU_KEYS.find((candidate) => candidate === name);
    if (key !== undefined) return key;
    throw badRequest(`unknown key: group_by: ${quote(name)}: use ${GPU_KEYS.join(', ')}`);
  });
}
