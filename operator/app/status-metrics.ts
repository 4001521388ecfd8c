import { Gauge, type Registry } from 'prom-client';
import type { BudgetLimiter } from '../billing/budgets/budget-limiter.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';
import type { DestinationStatusView, Views } from '../http/views.ts';
import { createLabelLimit } from '../telemetry/registry.ts';
import type { TenantApis } from '../tenant-api/tenant-apis.ts';

type Watched = Pick<
  DestinationStatusView,
  'name' | 'deadLetters' | 'parked' | 'blocked' | 'lagSeconds' | 'backlog'
>;

/** Less is an ordinary wait. */
const BEHIND_SECONDS = 3_600;

/** What is wrong with destinations, as metrics to be alerted on: read when they are scraped. No tenant is a label. */
export function createDestinationMetrics(registry: Registry, list: () => readonly Watched[]): void {
  const label = createLabelLimit();
  const gauge = (
    name: string,
    help: string,
    value: (status: Watched) => number | undefined,
  ): void => {
    const metric: Gauge<'destination'> = new Gauge({
      name,
      help,
      labelNames: ['destination'],
      registers: [registry],
      collect: () => {
        metric.reset();
        for (const status of list()) {
          const found = value(status);
          if (found !== undefined) metric.set({ destination: label(status.name) }, found);
        }
      },
    });
  };
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
    'meterfeed_destination_held',
    '1 while nothing is sent until an operator acts.',
    ({ blocked }) => Number(blocked !== undefined),
  );
  gauge(
    'meterfeed_destination_volume_full_seconds',
    'Until the volume of the ledger is full, of a destination that is more than an hour behind and stays so.',
    ({ lagSeconds, backlog }) =>
      lagSeconds < BEHIND_SECONDS || backlog?.fullInMs === undefined
        ? undefined
        : backlog.fullInMs / 1_000,
  );
}

/**
 * What the front page shows, as metrics to be alerted on: read when they are scraped. No tenant is a
 * label.
 */
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
  const registers = [registry];
  const gauge = (name: string, help: string, value: () => number): void => {
    const metric: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: () => metric.set(value()),
    });
  };
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
    'Pushed events of tenants that nobody knows, held until somebody decides.',
    () => (views.held?.list() ?? []).reduce((sum, { events }) => sum + events, 0),
  );
  gauge(
    'meterfeed_failed_tenant_apis',
    'Tenant clusters that have nodes of their own, or are said to, and whose API cannot be read.',
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
    'Tenants of whose budget nothing is left.',
    () => budgets.list().filter(({ used, limit }) => used >= limit).length,
  );
  const reached: Gauge<'percent'> = new Gauge({
    name: 'meterfeed_budget_threshold_reached_timestamp_seconds',
    help: 'When a tenant last reached so many percent of its budget, of the periods that there are.',
    labelNames: ['percent'],
    registers,
    collect: () => {
      reached.reset();
      for (const [percent, at] of guard.reachedAt()) reached.set({ percent }, at / 1000);
    },
  });
}

/** How many failing tenant APIs somebody misses: most tenant clusters have no nodes of their own. */
function missed(views: Views, tenantApis: Pick<TenantApis, 'list'>): number {
  const withPrivateNodes = new Set([
    ...tenantApis.list().flatMap((unit) => (unit.hasOwnNodes ? [unit.id] : [])),
    ...views.discovery
      .clusters()
      .flatMap(({ id, source, nodeMode }) =>
        source === 'external' || nodeMode === 'private' ? [id] : [],
      ),
  ]);
  return views.metering
    .failedTenantApis()
    .filter(({ tenantCluster }) => withPrivateNodes.has(tenantCluster)).length;
}
