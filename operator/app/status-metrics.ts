import type { Registry } from 'prom-client';
import type { BudgetLimiter } from '../billing/budgets/budget-limiter.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';
import type { DestinationStatusView, Views } from '../http/views.ts';
import { gaugesBy, gaugesIn } from '../telemetry/gauges.ts';
import { createLabelLimit } from '../telemetry/registry.ts';
import { declaresPrivateNodes } from '../tenant-api/tenant-api.ts';
import type { TenantApis } from '../tenant-api/tenant-apis.ts';

type Watched = Pick<
  DestinationStatusView,
  'name' | 'deadLetters' | 'parked' | 'blocked' | 'lagSeconds' | 'backlog'
>;

/** A shorter delay is normal. */
const BEHIND_SECONDS = 3_600;

/** Metrics for alerts about destinations, read at each scrape. No label names a tenant. */
export function createDestinationMetrics(registry: Registry, list: () => readonly Watched[]): void {
  const label = createLabelLimit();
  const gauge = gaugesBy(registry, 'destination', () =>
    list().map((status) => [label(status.name), status]),
  );
  gauge(
    'meterfeed_destination_dead_letters',
    'Events that the destination refused for good, until they are replayed or discarded.',
    ({ deadLetters }) => deadLetters,
  );
  gauge(
    'meterfeed_destination_parked_events',
    'Events that wait until the destination serves their tenant.',
    ({ parked }) => parked,
  );
  gauge(
    'meterfeed_destination_blocked',
    '1 while nothing is sent until an operator acts.',
    ({ blocked }) => Number(blocked !== undefined),
  );
  gauge(
    'meterfeed_destination_volume_full_seconds',
    'Seconds until the volume of the ledger is full, if the destination stays more than an hour behind.',
    ({ lagSeconds, backlog }) =>
      lagSeconds < BEHIND_SECONDS || backlog?.fullInMs === undefined
        ? undefined
        : backlog.fullInMs / 1_000,
  );
}

/** Metrics of the front page's figures for alerts, read at each scrape; no label names a tenant. */
export function createStatusMetrics(
  registry: Registry,
  views: Views,
  tenantApis: Pick<TenantApis, 'list'>,
  {
    budgets,
    limiter: guard,
  }: {
    readonly budgets: Pick<BudgetController, 'list'>;
    readonly limiter: Pick<BudgetLimiter, 'reachedAt'>;
  },
): void {
  const gauge = gaugesIn(registry);
  gauge(
    'meterfeed_tenants',
    'Tenants that discovery knows, and those that usage was pushed for.',
    () => views.discovery.tenants().length,
  );
  gauge(
    'meterfeed_tenant_clusters',
    'Tenant clusters that discovery knows.',
    () => views.discovery.clusters().length,
  );
  gauge(
    'meterfeed_held_events',
    'Pushed events of unknown tenants, held until someone decides.',
    () => (views.held?.list() ?? []).reduce((sum, { events }) => sum + events, 0),
  );
  gauge(
    'meterfeed_failed_tenant_apis',
    'Tenant clusters with private nodes, known or declared, whose API cannot be read.',
    () => missed(views, tenantApis),
  );
  gauge(
    'meterfeed_open_gaps',
    'Stretches that could not be measured and are not filled.',
    () => views.metering.gaps().length,
  );
  gauge('meterfeed_budgets', 'Tenants that have a budget.', () => budgets.list().length);
  gauge(
    'meterfeed_used_up_budgets',
    'Tenants with an exhausted budget.',
    () => budgets.list().filter(({ used, limit }) => used >= limit).length,
  );
  gaugesBy(registry, 'percent', () => guard.reachedAt())(
    'meterfeed_budget_threshold_reached_timestamp_seconds',
    'When a tenant last reached this percentage of its budget, in the current periods.',
    (at) => at / 1000,
  );
}

/** Counts the failing tenant APIs that matter: most tenant clusters have no private nodes. */
function missed(views: Views, tenantApis: Pick<TenantApis, 'list'>): number {
  const withPrivateNodes = new Set([
    ...tenantApis.list().flatMap((unit) => (unit.hasPrivateNodes ? [unit.id] : [])),
    ...views.discovery.clusters().flatMap((one) => (declaresPrivateNodes(one) ? [one.id] : [])),
  ]);
  return views.metering
    .failedTenantApis()
    .filter(({ tenantCluster }) => withPrivateNodes.has(tenantCluster)).length;
}
