import { type Controllers, createControllers } from '../controllers/controllers.ts';
import type { ReadinessCheck, Views } from '../http/views.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../kubernetes/metrics.ts';
import { PlanRecorder } from '../billing/usage/plan-recorder.ts';
import { createCollectorMetrics } from '../metering/windows/collector-metrics.ts';
import { fencedOutbound } from '../outbound/fenced-outbound.ts';
import { Anchors } from './anchors.ts';
import { type Budgets, buildBudgets } from './budgets.ts';
import type { BuildContext, OperatorOptions } from './build-context.ts';
import { ClusterHolder } from './cluster-holder.ts';
import { buildClusterView, type ClusterView } from './cluster-view.ts';
import { compareWithStatus } from './compare-with-status.ts';
import { CustomResources, whenConfigured } from './custom-resources.ts';
import { buildDelivery } from './delivery.ts';
import { buildGateways, type Gateways } from './intake.ts';
import { fleetReports, type Reported } from './fleet-reports.ts';
import { FocusExport } from './focus-export.ts';
import { localMeter } from './known-meter.ts';
import { httpComponent, labelComponents, reachOut } from './leader-components.ts';
import { buildMetering } from './metering.ts';
import { aborted, type Component, runComponents } from './components.ts';
import { createStatusMetrics } from './status-metrics.ts';
import { destinationCursors } from './stream.ts';
import { LEASE } from './terms.ts';
import { billingView, destinationsView, streamViews } from './views.ts';

const RETENTION_INTERVAL_MS = 60_000;

/**
 * Builds the operator of a leader, in the direction in which usage flows
 * (docs/explanation/architecture.md).
 */
export async function buildOperator(options: OperatorOptions): Promise<readonly Component[]> {
  const { connection, ledger, clock, logger, registry, namespace } = options;
  const customResources = new CustomResources(
    (): Controllers => controllers,
    () => watchesFit(options),
  );
  const reached = await reachOut(options, customResources);
  const context: BuildContext = {
    ...reached.context,
    collectorMetrics: createCollectorMetrics(registry),
    reflectorMetrics: createReflectorMetrics(registry),
    queueMetrics: createWorkQueueMetrics(registry),
  };
  const cluster = await buildClusterView(context);
  const metering = await buildMetering(context, cluster);
  const billing = await buildDelivery(context, cluster, metering);
  const budgets = buildBudgets(context, cluster, metering, billing);
  const gateways = buildGateways(context, metering, billing, budgets);
  const readiness = () => readinessOf(context, cluster);
  const { held } = billing;
  const meter = localMeter(context, { cluster, metering, held, readiness });
  const built = { cluster, metering, billing, budgets, gateways, meter, readiness };
  const views = operatorViews(context, built);
  const http = httpComponent(context, { views, ledger, totals: billing.stream.totals });
  const outbound = fencedOutbound(context.outbound, context.mayAct);
  const anchors = new Anchors({ ...context, outbound, sign: http.signStatement });
  const focus = new FocusExport({
    ...context,
    views,
    totals: billing.stream.totals,
    outbound,
    closeMonth: billing.closeMonth,
  });
  const controllers = buildControllers(context, { ...built, focus, anchors }, views);
  createStatusMetrics(registry, views, cluster.tenantApis, budgets);
  const installation = { connection, namespace, clock, logger, registry };
  const { ledgerId } = ledger.stats();
  const holder = new ClusterHolder({ ...installation, lease: LEASE, ledgerId });
  const metered: readonly Component[] = [
    ...cluster.components,
    { name: 'controllers', run: (signal) => controllers.run(signal) },
    { name: 'namespaces', run: (signal) => compareNamespaces(options, controllers, signal) },
    ...billing.components,
    gateways.component,
    { name: 'holder', run: (signal) => holder.run(signal) },
    // The MeteringPolicy may set the retention.
    whenConfigured(customResources, {
      name: 'retention',
      run: (signal) => retain(options, signal),
    }),
    ...metering.components,
    { name: 'anchors', run: (signal) => anchors.run(signal) },
    plansComponent(context, cluster, views),
    budgets.component,
    whenConfigured(customResources, { name: 'FOCUS files', run: (signal) => focus.run(signal) }),
    ...(options.isDatabase ? [fleetReports(context, built)] : []),
    ...labelComponents(context, readiness),
  ];
  return [
    ...reached.components,
    billing.sums,
    http,
    {
      name: 'leader',
      run: async (signal) => {
        await holder.claim(signal);
        if (!signal.aborted) await compareWithStatus(options, signal);
        if (signal.aborted) return;
        const end = await runComponents(metered, signal, { clock, logger });
        if (end.kind === 'failed') throw new Error(end.reason);
      },
    },
  ];
}

/** The built operator, as far as the API and the custom resources show it. */
interface Built extends Reported {
  readonly budgets: Budgets;
  readonly gateways: Gateways;
  readonly readiness: Views['readiness'];
}

function operatorViews(
  { settings, customResources, mayAct }: BuildContext,
  { metering, billing, budgets, gateways, meter, readiness }: Built,
): Views {
  const { stream, held, enforcement, noticedOf } = billing;
  const destinations = destinationsView(stream.delivery, noticedOf);
  return streamViews(
    { ...stream.origin, meter, destinations },
    {
      ...budgets.views,
      ...gateways.views,
      held,
      enforcement,
      billingState: (tenant) => enforcement.stateOf(tenant),
      settings: () => settings.current(),
      catalog: metering.catalog,
      pricesKnown: () => customResources.pricesKnown(),
      explanations: {
        find: async (event) => {
          const question = metering.question(event);
          return question === undefined
            ? metering.explanations.find(event)
            : { kind: 'asked', ...question };
        },
      },
      readiness,
      leads: () => mayAct() && readiness().every(({ ok }) => ok),
    },
  );
}

/**
 * Ready when the first lists have arrived and discovery has succeeded once. Later failures show in
 * the status only.
 */
function readinessOf(
  { stopping, ledger }: Pick<BuildContext, 'stopping' | 'ledger'>,
  { watches, discovery }: ClusterView,
): readonly ReadinessCheck[] {
  const starting = watches.all.filter((watch) => watch.health().state === 'starting');
  const { disk } = ledger.stats();
  return [
    { name: 'running', ok: !stopping.aborted, detail: stopping.aborted ? 'stopping' : 'yes' },
    {
      name: 'watches',
      ok: starting.length === 0,
      ...(starting.length > 0 && {
        detail: `not listed yet: ${starting.map(({ resource }) => resource.plural).join(', ')}`,
      }),
    },
    {
      name: 'discovery',
      ok: discovery.known(),
      ...(!discovery.known() && { detail: 'waiting for the first successful discovery' }),
    },
    { name: 'ledger', ok: disk.level !== 'collector-paused', detail: `disk: ${disk.level}` },
  ];
}

/** Builds the controllers of the custom resources, with the data for their status. */
function buildControllers(
  context: BuildContext,
  {
    cluster,
    metering,
    billing,
    budgets,
    meter,
    ...files
  }: Built & { readonly focus: FocusExport; readonly anchors: Anchors },
  views: Views,
): Controllers {
  const { ledger, settings, environment } = context;
  const { windows } = metering;
  const { enforcement, held, stream } = billing;
  return createControllers({
    ...context,
    timings: context.controllerTimings,
    records: ledger,
    knowsMetric: (code) => metering.catalog().find(code) !== undefined,
    cursors: destinationCursors(() => [stream], context.clock),
    leavesToHub: environment.role === 'meter',
    budgets: budgets.budgets,
    focusProblem: () => files.focus.problem(),
    anchors: files.anchors,
    held,
    enforcement: {
      mode: () => settings.current().enforcement.mode,
      status: () => enforcement.status(),
    },
    delivery: billingView(views.destinations),
    tenants: {
      known: meter.known,
      clusters: () => meter.clusters(),
      problems: () => meter.problems(),
      overrides: () => cluster.discovery.overrides(),
    },
    windows: {
      lastWindowEnd: () => windows.lastWindow?.end,
      gaps: () => meter.gaps(),
      failedTenantApis: () => meter.failedTenantApis(),
      withoutKubeconfig: () => meter.withoutKubeconfig().length,
      metricsFailure: () => meter.metricsFailure(),
      prometheus: () => metering.prometheus(),
      unattributed: () => meter.unattributed(),
    },
  });
}

/** Records the plan of each tenant. */
function plansComponent(
  { ledger, clock, logger, settings, customResources }: BuildContext,
  { discovery }: ClusterView,
  views: Views,
): Component {
  const plans = new PlanRecorder({
    ledger,
    clock,
    logger,
    known: () => discovery.known(),
    tenants: () => views.discovery.tenants(),
    defaultPlan: () => settings.current().billing.defaultPlanCode,
  });
  return whenConfigured(customResources, {
    name: 'plans of tenants',
    run: (signal) => plans.run(signal),
  });
}

/** Returns whether the operator watches the namespaces that the settings name. */
function watchesFit({ settings, watchNamespaces }: OperatorOptions): boolean {
  const named = settings.current().discovery.watchNamespaces;
  return (
    named.every((name) => watchNamespaces.includes(name)) &&
    watchNamespaces.every((name) => named.includes(name))
  );
}

async function compareNamespaces(
  options: OperatorOptions,
  controllers: Pick<Controllers, 'ready'>,
  signal: AbortSignal,
): Promise<void> {
  const { settings } = options;
  await controllers.ready(signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  const poll = (): void => {
    if (watchesFit(options)) return;
    options.onOtherNamespaces(settings.current().discovery.watchNamespaces);
  };
  if (signal.aborted) return;
  const leave = settings.subscribe(poll);
  poll();
  await aborted(signal);
  leave();
}

async function retain(
  { settings, ledger, clock }: OperatorOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    ledger.setRetention(settings.current().ledger.retentionMs);
    await ledger.retain(clock.now());
    await clock.sleep(RETENTION_INTERVAL_MS, signal).catch(() => undefined);
  }
}
