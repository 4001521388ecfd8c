import { join } from 'node:path';
import { Gauge, type Registry } from 'prom-client';
import { Credits } from '../budgets/credits.ts';
import { BudgetGate } from '../budgets/gate.ts';
import { type BudgetKeeper, createBudgetKeeper } from '../budgets/keeper.ts';
import { PrepaidBalances } from '../budgets/prepaid.ts';
import { thresholdEvent, thresholdNotice } from '../budgets/threshold-event.ts';
import { type Controllers, createControllers } from '../controllers/controllers.ts';
import { createHttpServer, type HttpServer } from '../http/server.ts';
import type { Views } from '../http/views.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import type { TenantApis } from '../tenant-api/tenant-apis.ts';
import { createPlanKeeper } from '../usage/plan-keeper.ts';
import type { BuildContext } from './build-context.ts';
import { whenConfigured } from './custom-resources.ts';
import { createDestinationMetrics } from './destination-metrics.ts';
import { aborted, type Part } from './parts.ts';
import { controllerViews, type Engine, httpViews } from './views.ts';

/** Where the engine meets people and programs: HTTP, metrics, custom resources. */
export interface Surface {
  /** Ended last, so that what it shows is there as long as it answers. */
  readonly http: Part;
  readonly controllers: Controllers;
  /** What must hold before this process is ready. */
  readonly readiness: Views['readiness'];
  /** Records which plan each tenant is on, while this process leads. */
  readonly plans: Part;
  /** Keeps the accounts of budgets, while this process leads. */
  readonly budgets: Part;
}

export function buildSurface(context: BuildContext, engine: Engine): Surface {
  const { registry, ledger, environment, logger, clock, random, version } = context;
  const credits = new Credits({
    ledger,
    clock,
    windowMs: () => context.settings.current().metering.windowMs,
  });
  const views = httpViews(engine, {
    pricesKnown: () => controllers.pricesKnown(),
    budgets: { of: (tenant) => budgets.of(tenant) },
    credits: {
      add: (request) => credits.add(request),
      list: (tenant) => credits.list(tenant),
      used: (tenant, counts) => budgets.prepaidUsed(tenant, counts),
      counts: (tenant) => budgets.prepaidCounts(tenant),
    },
  });
  const http = createHttpServer({
    clock,
    logger,
    version,
    ledger,
    metrics: registry,
    front: context.front,
    usageDirectory: join(environment.ledger.dataDir, 'usage'),
    views,
  });
  const events = new EventRecorder(context);
  const gate = new BudgetGate({
    ledger,
    clock,
    random,
    logger,
    enforcement: engine.billing.enforcement,
    isSpared: (tenant) => context.settings.current().enforcement.neverSuspend.includes(tenant),
    tell: async (reached, toldTo) => {
      const regarding = controllers.giverOf(reached.override);
      const [isRecorded, { told, waiting }] = await Promise.all([
        regarding !== undefined &&
          events.recordOnce(thresholdEvent(reached, regarding), reached.id),
        engine.billing.delivery.notify(thresholdNotice(reached), toldTo),
      ]);
      if (isRecorded && waiting.length === 0) return { kind: 'told' };
      const reason = waiting[0] ?? 'the API server does not take its Event';
      return { kind: 'waiting', toldTo: told, reason };
    },
  });
  const sources = {
    ledger,
    clock,
    logger,
    credits,
    totals: http.totals,
    settings: context.settings,
    isCharged: (metric: string) => engine.metering.catalog().find(metric)?.informational !== true,
  };
  const budgets = createBudgetKeeper({
    ...sources,
    gate,
    prepaid: new PrepaidBalances(sources),
    discovery: engine.cluster.discovery,
    windows: engine.metering.windows,
    pricesKnown: () => controllers.pricesKnown(),
  });
  createStatusMetrics(registry, views, engine.cluster.tenantApis, { budgets, gate });
  const controllers = createControllers({
    clock,
    random,
    logger,
    ledger,
    records: ledger,
    knowsMetric: (code) => engine.metering.catalog().find(code) !== undefined,
    environment,
    connection: context.connection,
    settings: context.settings,
    queueMetrics: context.queueMetrics,
    reflectorMetrics: context.reflectorMetrics,
    namespace: context.namespace,
    instance: context.instance,
    cursors: engine.billing.cursors,
    leavesToHub: environment.role === 'meter',
    ...controllerViews(engine),
    budgets,
  });
  const plans = createPlanKeeper({
    ledger,
    clock,
    logger,
    known: () => views.discovery.known(),
    tenants: () => views.discovery.tenants(),
    defaultPlan: () => context.settings.current().billing.defaultPlanCode,
  });
  return {
    http: { name: 'HTTP server', run: (signal) => serve(http, signal) },
    controllers,
    readiness: () => views.readiness(),
    plans: whenConfigured(context.customResources, {
      name: 'plans of tenants',
      run: (signal) => plans.run(signal),
    }),
    budgets: whenConfigured(context.customResources, {
      name: 'budgets',
      run: (signal) => budgets.run(signal),
    }),
  };
}

async function serve(http: HttpServer, signal: AbortSignal): Promise<void> {
  await http.listen(signal);
  await aborted(signal);
  await http.close();
}

/**
 * What the front page shows, as metrics to be alerted on: read when they are scraped. No tenant is a
 * label.
 */
function createStatusMetrics(
  registry: Registry,
  views: Views,
  tenantApis: Pick<TenantApis, 'list'>,
  {
    budgets,
    gate,
  }: {
    readonly budgets: Pick<BudgetKeeper, 'list'>;
    readonly gate: Pick<BudgetGate, 'reachedAt'>;
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
    () => views.held.list().reduce((sum, { events }) => sum + events, 0),
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
      for (const [percent, at] of gate.reachedAt()) reached.set({ percent }, at / 1000);
    },
  });
  createDestinationMetrics(registry, () => views.destinations.list());
}

/** How many failing tenant APIs somebody misses: most tenant clusters have no nodes of their own. */
function missed(views: Views, tenantApis: Pick<TenantApis, 'list'>): number {
  const withOwnNodes = new Set([
    ...tenantApis.list().flatMap((unit) => (unit.hasOwnNodes ? [unit.id] : [])),
    ...views.discovery
      .clusters()
      .flatMap(({ id, source, nodeMode }) =>
        source === 'external' || nodeMode === 'private' ? [id] : [],
      ),
  ]);
  return views.metering
    .failedTenantApis()
    .filter(({ tenantCluster }) => withOwnNodes.has(tenantCluster)).length;
}
