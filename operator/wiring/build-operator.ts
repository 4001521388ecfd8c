import { join } from 'node:path';
import type { Registry } from 'prom-client';
import type { Settings, SettingsStore } from '../config/settings.ts';
import { createControllers } from '../controllers/controllers.ts';
import { createDelivery } from '../delivery/delivery.ts';
import { createDestinationRegistry } from '../destinations/registry.ts';
import { createDiscovery, type Discovery } from '../discovery/discovery.ts';
import { createExternalFile, type ExternalFile } from '../discovery/external-file.ts';
import { createHttpServer, type HttpServer } from '../http/server.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createLeaderElection } from '../kubernetes/lease.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createObservation, type ObservationOptions } from '../observation/observation.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { ConfiguredMetric } from '../prometheus/configured-metric.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Collector, createCollector } from '../windows/collector.ts';
import { createCollectorMetrics } from '../windows/collector-metrics.ts';
import { restoreJournal } from '../windows/journal.ts';
import { createPodMetricsReader } from '../windows/pod-metrics.ts';
import { createLiveCatalog } from './catalog.ts';
import { createCursorRetirement } from './cursor-retirement.ts';
import { deliveryPart } from './delivery-part.ts';
import { createDestinationWatches } from './destination-watches.ts';
import { wireEnforcement } from './enforcement.ts';
import { leaderPart } from './leader-part.ts';
import { openExplanations } from './explanations.ts';
import { hasOpenGaps } from './open-gaps.ts';
import { aborted, type Part } from './parts.ts';
import { createStatusMetrics } from './status-metrics.ts';
import { createConfiguredMetrics, createPrometheus } from './prometheus.ts';
import { controllerViews, type Engine, httpViews } from './views.ts';
import { warnOfSmallVolume } from './volume-check.ts';
import { type WiredTenantApis, wireTenantApis } from './tenant-apis.ts';
import { createWatches } from './watches.ts';
import { whenConfigured } from './when-configured.ts';

export interface OperatorOptions {
  readonly version: string;
  /** The settings without any custom resource. */
  readonly environment: Settings;
  /** What PROMETHEUS_METRICS_FILE held at the start. */
  readonly configuredMetrics: readonly ConfiguredMetric[];
  readonly settings: SettingsStore;
  readonly connection: Connection;
  readonly namespace: string;
  /** Which process this is: the pod's name. */
  readonly instance: string;
  readonly ledger: Ledger;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly stopping: AbortSignal;
}

/** Of the Lease in the operator's own namespace; config/rbac names it. */
const LEASE = 'meterfeed';

/**
 * Longer than the usual 15 s: there is no standby in a hurry, a restart takes its own lease back at
 * once, and a short absence of the API server must not end the only meter there is.
 */
const LEASE_TIMINGS = { duration: 60_000, renewDeadline: 45_000, retry: 3_000 };

const RETENTION_INTERVAL_MS = 60_000;

/**
 * Builds the operator out of its rooms, in the direction in which usage flows (docs/architecture.md).
 * Health and API are served from the beginning; the rest waits until this process leads.
 */
export async function buildOperator(options: OperatorOptions): Promise<readonly Part[]> {
  const { version, settings, connection, ledger, clock, random, logger, registry } = options;
  const common = { clock, random, logger };
  const collectorMetrics = createCollectorMetrics(registry);
  const reflectorMetrics = createReflectorMetrics(registry);
  const queueMetrics = createWorkQueueMetrics(registry);
  const outbound = createOutbound({ registry, clock, userAgent: `meterfeed/${version}` });
  const configured = createConfiguredMetrics({
    ...common,
    settings,
    initial: options.configuredMetrics,
    path: options.environment.prometheus.metricsFile,
  });
  const catalog = createLiveCatalog(settings, () => configured.definitions(), logger);

  const observing: ObservationOptions = {
    nodeSettings: () => settings.current().metering,
    billedUntil: (present) => billedUntil(settings.current(), present),
    countClamped: () => collectorMetrics.clampedTimes.inc(),
  };
  const observation = createObservation(observing);
  const restored = await restoreJournal(ledger, observation, logger);
  const watches = createWatches({
    ...common,
    connection,
    observation,
    restored,
    metrics: reflectorMetrics,
    settings: options.environment,
    onTenantClusterChange: () => discovery.request(),
    alsoTold: () => tenantApis.apis.onHost,
  });
  const discovery: Discovery = createDiscovery({
    ...common,
    settings,
    sources: watches.discovery,
    records: ledger,
    ...externalFile(options),
  });
  discovery.subscribe((clusters, at) => observation.tenantClusters.observe(clusters, at));
  const tenantApis: WiredTenantApis = await wireTenantApis({
    ...common,
    connection,
    settings,
    discovery,
    observation,
    observing,
    watches,
    ledger,
  });

  warnOfSmallVolume({ discovery, ledger, settings: () => settings.current(), logger });

  const explanations = await openExplanations({
    ...common,
    ledger,
    dataDir: options.environment.ledger.dataDir,
  });
  const windows = createCollector({
    ...common,
    explanations,
    observation,
    restored,
    tenants: tenantApis.apis,
    restoredTenants: tenantApis.restored,
    ledger,
    metrics: collectorMetrics,
    sources: watches.collector,
    settings: () => settings.current(),
    podMetrics: createPodMetricsReader(connection),
  });
  const prometheus = createPrometheus({
    ...common,
    outbound,
    configured,
    observation,
    windows,
    settings,
    ledger,
    registry,
  });
  const gaps = () => [...windows.gaps(), ...prometheus.gaps()];
  const delivery = createDelivery({
    ...common,
    ledger,
    catalog,
    registry,
    createDestination: createDestinationRegistry({
      ...common,
      outbound,
    }),
    tenants: {
      find: (id) => discovery.findTenant(id),
      subscribe: (listener) => discovery.subscribe(() => listener()),
      hasOpenGaps: (id) => {
        const { maxBackfillMs } = settings.current().metering;
        const fillableFrom = clock.now() - maxBackfillMs;
        return hasOpenGaps(id, gaps(), discovery.clusters(), fillableFrom);
      },
    },
    invalidDestinations: () => controllers.destinationNames(),
    maxBackfillMs: () => settings.current().metering.maxBackfillMs,
  });

  const destinationWatches = createDestinationWatches({ ...common, delivery, ledger, registry });

  const enforcement = await wireEnforcement({
    ...options,
    discovery,
    sources: watches.discovery,
    delivery: () => delivery,
    controllers: () => controllers,
    queueMetrics,
  });

  const election = createLeaderElection({
    ...common,
    connection,
    namespace: options.namespace,
    name: LEASE,
    // A restart on the same volume finds its own lease; the ledger's lock keeps a second process off it.
    identity: `${options.instance}_${ledger.stats().ledgerId}`,
    timings: LEASE_TIMINGS,
  });

  const engine: Engine = {
    settings,
    catalog,
    ledger,
    discovery,
    windows,
    gaps,
    explanations,
    question: (event) => prometheus.question(event),
    delivery,
    destinationWatches,
    enforcement,
    watches: watches.all,
    failedTenantApis: () => tenantApis.apis.failures(),
    running: () => !options.stopping.aborted,
    leading: () => election.leading,
  };
  const shown = httpViews(engine);
  createStatusMetrics(registry, shown, tenantApis.apis);
  const http = createHttpServer({
    ...common,
    version,
    ledger,
    metrics: registry,
    usageDirectory: join(options.environment.ledger.dataDir, 'usage'),
    views: shown,
  });
  const controllers = createControllers({
    ...common,
    connection,
    settings,
    ledger,
    queueMetrics,
    reflectorMetrics,
    ...controllerViews(engine),
    environment: options.environment,
    namespace: options.namespace,
    instance: options.instance,
    cursors: createCursorRetirement({ settings, delivery, ledger, clock }),
  });
  const configuredFirst = (part: Part): Part => whenConfigured(controllers, part);
  const parts: readonly Part[] = [
    ...watches.all.map((source) => {
      const { plural } = source.resource;
      const part = { name: `watch of ${plural}`, run: (signal: AbortSignal) => source.run(signal) };
      // What a node's labels and taints mean is a setting.
      return source.resource === watches.collector.nodes.resource ? configuredFirst(part) : part;
    }),
    // How long usage is kept may be the policy's word.
    configuredFirst({ name: 'retention', run: (signal) => retain(options, signal) }),
    configuredFirst({ name: 'discovery', run: (signal) => discovery.run(signal) }),
    ...tenantApis.parts.map(configuredFirst),
    { name: 'controllers', run: (signal) => controllers.run(signal) },
    // A destination that is not known yet would count as gone.
    configuredFirst(deliveryPart({ delivery, discovery, settings, logger })),
    destinationWatches.part,
    { name: 'enforcement', run: (signal) => enforcement.run(signal) },
    configuredFirst({ name: 'windows', run: (signal) => closeWindows(windows, signal) }),
    ...prometheus.parts.map(configuredFirst),
  ];
  return [
    { name: 'HTTP server', run: (signal) => serve(http, signal) },
    leaderPart(election, parts, common),
  ];
}

/** TENANT_CLUSTERS_FILE, where it is set. */
function externalFile(options: OperatorOptions): { readonly external?: ExternalFile } {
  const { environment, ledger, clock } = options;
  const path = environment.tenantApi.clustersFile;
  return path === undefined
    ? {}
    : { external: createExternalFile({ path, records: ledger, clock }) };
}

async function serve(http: HttpServer, signal: AbortSignal): Promise<void> {
  await http.listen(signal);
  await aborted(signal);
  await http.close();
}

async function retain(
  { settings, ledger, clock }: Pick<OperatorOptions, 'settings' | 'ledger' | 'clock'>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    ledger.setRetention(settings.current().ledger.retentionMs);
    await ledger.retain(clock.now());
    await clock.sleep(RETENTION_INTERVAL_MS, signal).catch(() => undefined);
  }
}

async function closeWindows(windows: Collector, signal: AbortSignal): Promise<void> {
  const end = await windows.run(signal);
  if (end.kind === 'ledger') throw new Error(end.reason);
}

/** With WATCH_DELETIONS off, what vanishes is billed to the last window end at which it was there (design 6). */
function billedUntil({ metering }: Settings, present: number): number {
  if (metering.watchDeletions) return present;
  return Math.floor(present / metering.windowMs) * metering.windowMs;
}
