/** A page of the portal, and what it asks of the API (`operator/http/dashboard/client/portal/`). */
export interface Page {
  readonly name: string;
  /** Of a tenant, whom an operator has to name: a tenant's own token names it. */
  readonly paths: (tenant: string, isOperator: boolean) => readonly string[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const METRIC = 'tenant_gpu_hours';
const EVENTS_SHOWN = '200';

interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** The pages as they are at a time, milliseconds since the epoch: overviews, and one sum taken apart down to its events. */
export function pagesOf(now: number, days: number): readonly Page[] {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const end = (Math.floor(now / HOUR_MS) + 1) * HOUR_MS;
  const hour = end - 2 * HOUR_MS;
  return [
    overview(`${days}d`, { from: today - (days - 1) * DAY_MS, to: end }, 'day'),
    overview('7d', { from: today - 6 * DAY_MS, to: end }, 'hour'),
    overview('24h', { from: end - DAY_MS, to: end }, 'hour'),
    sums('days', { from: today - (days - 1) * DAY_MS, to: end }, { group_by: 'day' }),
    sums('hours', { from: today - DAY_MS, to: today }, { group_by: 'hour' }),
    sums('windows', { from: hour, to: hour + HOUR_MS }, { group_by: 'window' }),
    {
      name: 'events',
      paths: pathsOf([
        [
          'events',
          { ...complete({ from: hour, to: hour + 60_000 }), metric: METRIC, limit: EVENTS_SHOWN },
        ],
      ]),
    },
  ];
}

/** What the first page asks for when it opens. */
function overview(name: string, stretch: Stretch, bucket: 'day' | 'hour'): Page {
  const range = complete(stretch);
  const paths = pathsOf([
    ['usage', { ...range, group_by: 'sku,tenant_cluster' }],
    ['gaps', range],
    ['costs', { ...range, group_by: 'sku,tenant_cluster' }],
    ['usage', { ...range, metric: METRIC, group_by: `sku,${bucket}` }],
    ['gaps', { ...range, metric: METRIC }],
  ]);
  return {
    name,
    paths: (tenant, isOperator) => [
      `/api/v1/tenants/${tenant}`,
      '/api/v1/catalog',
      ...paths(tenant, isOperator),
    ],
  };
}

/** One sum, taken apart. */
function sums(name: string, stretch: Stretch, by: { readonly group_by: string }): Page {
  return { name, paths: pathsOf([['usage', { ...complete(stretch), metric: METRIC, ...by }]]) };
}

type Requested = readonly (readonly [path: string, parameters: Readonly<Record<string, string>>])[];

function pathsOf(requested: Requested): Page['paths'] {
  return (tenant, isOperator) =>
    requested.map(([path, parameters]) => {
      const query = new URLSearchParams({ ...parameters, ...(isOperator && { tenant }) });
      return `/api/v1/${path}?${query.toString()}`;
    });
}

function complete({ from, to }: Stretch): { readonly from: string; readonly to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}
