import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Registers the metrics of metering by Prometheus. */
export function createPrometheusMetrics(registry: Registry) {
  const registers = [registry];
  return {
    queries: new Counter({
      name: 'meterfeed_prometheus_queries_total',
      help: 'Queries by metric and outcome: answered, failed (of the query), unreachable (of the server).',
      labelNames: ['metric', 'outcome'],
      registers,
    }),
    querySeconds: new Histogram({
      name: 'meterfeed_prometheus_query_seconds',
      help: 'Time to answer a query.',
      buckets: [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30],
      registers,
    }),
    refusedRows: new Counter({
      name: 'meterfeed_prometheus_refused_rows_total',
      help: 'Rows of results that could not be charged, by metric.',
      labelNames: ['metric'],
      registers,
    }),
    pendingWindows: new Gauge({
      name: 'meterfeed_prometheus_pending_windows',
      help: 'Windows of a metric and tenant cluster whose query failed and is retried.',
      registers,
    }),
    givenUpWindows: new Counter({
      name: 'meterfeed_prometheus_given_up_windows_total',
      help: 'Windows of a metric and tenant cluster that stayed unanswered until MAX_BACKFILL.',
      labelNames: ['metric'],
      registers,
    }),
    lagSeconds: new Gauge({
      name: 'meterfeed_prometheus_lag_seconds',
      help: 'Seconds since the end of the oldest window that Prometheus was not queried for yet.',
      registers,
    }),
    unreachable: new Gauge({
      name: 'meterfeed_prometheus_unreachable',
      help: '1 while Prometheus answers no query.',
      registers,
    }),
    tenantQueries: new Gauge({
      name: 'meterfeed_prometheus_tenant_queries',
      help: 'Queries of the last window about a single tenant cluster. Their number grows with the number of tenant clusters.',
      registers,
    }),
    leftOut: new Gauge({
      name: 'meterfeed_prometheus_not_selectable',
      help: 'Tenant clusters for which a query of the last window was not sent, because they lack a name that it selects by; by metric and name.',
      labelNames: ['metric', 'placeholder'],
      registers,
    }),
  };
}

export type PrometheusMetrics = ReturnType<typeof createPrometheusMetrics>;
