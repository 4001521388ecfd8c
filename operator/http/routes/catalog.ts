import { SCHEMA_VERSION } from '../../model/event.ts';
import { readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';

/** GET /api/v1/catalog: every metric the service knows, CUSTOM_METRICS included. */
export function catalogRoute({ views }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/catalog',
    access: 'read',
    hub: 'all',
    tenantScope: 'same',
    summary: 'the metrics that the service knows',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        const metrics = views.catalog().metrics.map((metric) => ({
          code: metric.code,
          name: metric.name,
          unit: metric.unit,
          description: metric.description,
          aggregation_field: metric.aggregationField,
          source: metric.source,
          billable: !metric.informational,
          dimensions: metric.dimensions,
        }));
        response.json({ schema_version: SCHEMA_VERSION, metrics });
      },
    ],
  };
}
