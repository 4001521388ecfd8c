import { join } from 'node:path';
import type { Settings, SettingsStore } from '../settings/settings.ts';
import { EvidenceFiles } from '../metering/explanations/evidence-files.ts';
import { Explanations } from '../metering/explanations/explanations.ts';
import {
  BUILT_IN_CATALOG,
  buildCatalog,
  type Catalog,
  type MetricDefinition,
} from '../model/catalog.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Collector } from '../metering/windows/collector.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import { createPodMetricsReader } from '../metering/windows/pod-metrics.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Component } from './components.ts';
import { createConfiguredMetrics, createPrometheus, type Prometheus } from './prometheus.ts';

/** Makes usage events, and answers questions about them. */
export interface Metering {
  readonly catalog: () => Catalog;
  readonly windows: Collector;
  /** The gaps of windows and of Prometheus measurements. */
  readonly gaps: () => readonly Gap[];
  readonly explanations: Pick<Explanations, 'find'>;
  /** The Prometheus query of an event; undefined if Prometheus did not measure it. */
  readonly question: Prometheus['question'];
  /** See {@link Prometheus}. */
  readonly prometheus: Prometheus['report'];
  readonly components: readonly Component[];
}

/** Builds the windows with the evidence of their numbers, and the measurements of Prometheus. */
export async function buildMetering(
  context: BuildContext,
  cluster: ClusterView,
): Promise<Metering> {
  const { settings, ledger, clock, random, logger } = context;
  const common = { clock, random, logger };
  const configured = createConfiguredMetrics({
    settings,
    clock,
    logger,
    initial: context.configuredMetrics,
    path: context.environment.prometheus.metricsFile,
  });
  const explanations = await openExplanations(context);
  const windows = new Collector({
    ...common,
    explanations,
    observation: cluster.observation,
    restored: cluster.restored,
    restoredTenants: cluster.restoredTenants,
    tenants: cluster.tenantApis,
    ledger,
    metrics: context.collectorMetrics,
    sources: cluster.watches.collector,
    arrivals: cluster.watches.arrivals,
    settings: () => settings.current(),
    podMetrics: createPodMetricsReader(context.connection),
    tracer: context.tracer,
  });
  const prometheus: Prometheus = createPrometheus({
    ...common,
    outbound: context.outbound,
    configured,
    observation: cluster.observation,
    windows,
    settings,
    ledger,
    registry: context.registry,
  });
  const whenSet = (component: Component): Component =>
    whenConfigured(context.customResources, component);
  return {
    catalog: createLiveCatalog(settings, () => configured.definitions(), logger),
    windows,
    gaps: () => [...windows.gaps(), ...prometheus.gaps()],
    explanations,
    question: (event) => prometheus.question(event),
    prometheus: () => prometheus.report(),
    components: [
      ...configured.components,
      { name: 'windows', run: (signal: AbortSignal) => closeWindows(windows, signal) },
      prometheus.component,
    ].map(whenSet),
  };
}

async function closeWindows(windows: Pick<Collector, 'run'>, signal: AbortSignal): Promise<void> {
  const end = await windows.run(signal);
  if (end.kind === 'ledger') throw new Error(end.reason);
}

/** Reads explanations from the ledger, and for events of an earlier release from its files. */
async function openExplanations({
  environment,
  ledger,
  clock,
  logger,
}: BuildContext): Promise<Explanations> {
  const older = new EvidenceFiles(join(environment.ledger.dataDir, 'explanations'));
  await older.prune(ledger.stats().oldestAt ?? 0);
  return new Explanations(ledger, older, clock, logger);
}

/**
 * Returns the catalogue of the settings and the Prometheus metrics in force. If a policy declares
 * an invalid metric, the last valid catalogue stays.
 */
export function createLiveCatalog(
  settings: SettingsStore,
  prometheus: () => readonly MetricDefinition[],
  logger: Logger,
): () => Catalog {
  let requested: readonly MetricDefinition[] | undefined;
  let declared: Settings['metering']['customMetrics'] | undefined;
  let catalog: Catalog | undefined;
  return () => {
    const { customMetrics } = settings.current().metering;
    const queried = prometheus();
    if (catalog !== undefined && customMetrics === declared && queried === requested)
      return catalog;
    declared = customMetrics;
    requested = queried;
    const outcome = buildCatalog(customMetrics, queried);
    if (outcome.kind === 'catalog') catalog = outcome.catalog;
    else for (const problem of outcome.problems) logger.error(`[controller] ${problem}`);
    catalog ??= BUILT_IN_CATALOG;
    return catalog;
  };
}
