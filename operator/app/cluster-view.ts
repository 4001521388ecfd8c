import type { Settings } from '../settings/settings.ts';
import { CUSTOMER_ID_KEYS } from '../destinations/registry.ts';
import { Discovery } from '../discovery/discovery.ts';
import { ExternalFile } from '../discovery/external-file.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { volumeNeeded } from '../ledger/volume-needed.ts';
import {
  createObservation,
  type Observation,
  type ObservationOptions,
} from '../metering/timelines/observation.ts';
import type { Logger } from '../telemetry/logger.ts';
import { TenantApiAccess } from '../tenant-api/access.ts';
import { ForeignReader } from '../tenant-api/reading/foreign-reader.ts';
import { countReaderDeaths } from '../tenant-api/reading/foreign-reader.ts';
import { TenantApis } from '../tenant-api/tenant-apis.ts';
import { restoreJournal, type RestoredJournal } from '../metering/windows/journal.ts';
import { restoreTenantApis, type RestoredTenantApi } from '../metering/windows/tenant-journal.ts';
import type { BuildContext } from './build-context.ts';
import { whenConfigured } from './custom-resources.ts';
import { createMachineRecordWatch } from './machine-records.ts';
import type { Component } from './components.ts';
import { createTenantObjectWatches } from './tenant-object-watches.ts';
import { createWatches, type Watches } from './watches.ts';

/** State of the host cluster and of its tenant clusters. */
export interface ClusterView {
  readonly watches: Watches;
  readonly observation: Observation;
  readonly discovery: Discovery;
  /** APIs of tenant clusters with private nodes. */
  readonly tenantApis: TenantApis;
  /** State that the journal restored from the windows of an earlier process. */
  readonly restored: Pick<RestoredJournal, 'state'>;
  readonly restoredTenants: readonly Pick<RestoredTenantApi, 'id' | 'progress'>[];
  /** Stop them after the windows: the windows' journal records the positions of the watches. */
  readonly components: readonly Component[];
}

/** Builds watches, timelines, discovery and tenant APIs, restored from the journal. */
export async function buildClusterView(context: BuildContext): Promise<ClusterView> {
  const { settings, connection, ledger, clock, random, logger } = context;
  const observing: ObservationOptions = {
    nodeSettings: () => settings.current().metering,
    billedUntil: (present) => billedUntil(settings.current().metering, present),
    countClamped: () => context.collectorMetrics.clampedTimes.inc(),
  };
  const observation = createObservation(observing);
  const restored = await restoreJournal(ledger, observation, { logger, clock });
  const watches = createWatches({
    connection,
    labelPrefix: context.environment.identity.labelPrefix,
    watchNamespaces: context.watchNamespaces,
    observation,
    restored,
    clock,
    random,
    logger,
    metrics: context.reflectorMetrics,
  });
  const tenantObjects = createTenantObjectWatches({
    connection,
    settings,
    labelPrefix: context.environment.identity.labelPrefix,
    watchNamespaces: context.watchNamespaces,
    clock,
    random,
    logger,
  });
  const discovery: Discovery = new Discovery({
    settings,
    sources: { ...watches.discovery, tenantObjects: tenantObjects.sources },
    customerIdKeys: CUSTOMER_ID_KEYS,
    ownNamespace: context.namespace,
    records: ledger,
    stillBilled: () => observation.tenantClusters.leaving.map(({ cluster }) => cluster.tenant),
    clock,
    logger,
    external: externalFile(context),
  });
  watches.subscribe({ tenantClusters: discovery.request });
  tenantObjects.subscribe(discovery.request);
  discovery.subscribe((clusters, at) => {
    const refused = [...discovery.refusedNamespaces()];
    watches.arrivals.take(() => {
      observation.tenantClusters.observe(clusters, at);
      observation.refusedNamespaces.clear();
      for (const name of refused) observation.refusedNamespaces.add(name);
    });
  });
  warnOfSmallVolume({ discovery, ledger, settings: () => settings.current(), logger });

  const tenants = await buildTenantApis(context, { watches, observation, observing, discovery });
  return {
    watches,
    observation,
    discovery,
    tenantApis: tenants.apis,
    // Only the state: the points from which the watches resumed would otherwise stay in memory.
    restored: { state: restored.state },
    restoredTenants: tenants.restored,
    components: [
      ...watchComponents(context, watches),
      ...tenantObjects.components,
      whenConfigured(context.customResources, {
        name: 'discovery',
        run: (signal) => discovery.run(signal),
      }),
      ...tenants.components,
    ],
  };
}

/**
 * Time until which a vanished object is billed. With WATCH_DELETIONS off, it is the last window end
 * at which the object existed.
 */
function billedUntil({ watchDeletions, windowMs }: Settings['metering'], present: number): number {
  return watchDeletions ? present : Math.floor(present / windowMs) * windowMs;
}

/** The file TENANT_CLUSTERS_FILE; undefined if the variable is not set. */
function externalFile({ environment, ledger, clock }: BuildContext): ExternalFile | undefined {
  const path = environment.tenantApi.clustersFile;
  if (path === undefined) return undefined;
  return new ExternalFile({
    path,
    customerIdKeys: CUSTOMER_ID_KEYS,
    records: ledger,
    clock,
  });
}

function watchComponents(
  { customResources }: BuildContext,
  watches: Watches,
): readonly Component[] {
  return watches.all.map((source) => {
    const { plural } = source.resource;
    const component: Component = {
      name: `watch of ${plural}`,
      run: (signal) => source.run(signal),
    };
    // Settings define the meaning of a node's labels and taints.
    const bySettings = source.resource === watches.collector.nodes.resource;
    return bySettings ? whenConfigured(customResources, component) : component;
  });
}

async function buildTenantApis(
  context: BuildContext,
  {
    watches,
    observation,
    observing,
    discovery,
  }: Pick<ClusterView, 'watches' | 'observation' | 'discovery'> & {
    readonly observing: ObservationOptions;
  },
) {
  const { connection, settings, ledger, clock, random, logger, customResources } = context;
  const { nodes, volumes, loadBalancers } = watches.collector;
  const common = { clock, random, logger, discovery };
  const { watchNamespaces } = context;
  const access = new TenantApiAccess({ ...common, connection, settings, watchNamespaces });
  const machines = createMachineRecordWatch({
    ...common,
    connection,
    settings,
    watchNamespaces: context.watchNamespaces,
    hostNode: (name) => nodes.find('', name),
  });
  const reader = new ForeignReader({
    clock,
    random,
    logger,
    onDeath: countReaderDeaths(context.registry),
  });
  const apis = new TenantApis({
    ...common,
    machines: machines.records,
    access,
    reader,
    enabled: () => settings.current().tenantApi.enabled,
    tenantClusters: observation.tenantClusters,
    host: { nodes, volumes, loadBalancers },
    observing,
  });
  const restored = await restoreTenantApis(ledger, (id) => apis.observe(id), { logger, clock });
  apis.restore(restored);
  watches.subscribe(apis.onHost);
  const components: readonly Component[] = [
    { name: 'access to tenant APIs', run: (signal) => access.run(signal) },
    machines.component,
    {
      name: 'watches of tenant APIs',
      run: async (signal) => {
        await apis.run(signal);
        await reader.close();
      },
    },
  ];
  return {
    apis,
    restored: restored.map(({ id, progress }) => ({ id, progress })),
    components: components.map((component) => whenConfigured(customResources, component)),
  };
}

/** Typical number of events of a tenant cluster in a window. */
const EVENTS_PER_CLUSTER = 10;
const GIB = 1024 ** 3;

/** Logs once, when the tenant clusters are known, that the volume is too small for RETENTION. */
export function warnOfSmallVolume(options: {
  readonly discovery: Pick<Discovery, 'subscribe'>;
  readonly ledger: Pick<Ledger, 'stats'>;
  readonly settings: () => Settings;
  readonly logger: Logger;
}): void {
  const end = options.discovery.subscribe((clusters) => {
    if (clusters.length === 0) return;
    end();
    const { metering, ledger } = options.settings();
    const needed = volumeNeeded({
      eventsPerWindow: clusters.length * EVENTS_PER_CLUSTER,
      windowMs: metering.windowMs,
      retentionMs: ledger.retentionMs,
    });
    const { roomBytes } = options.ledger.stats();
    if (roomBytes === undefined || roomBytes >= needed) return;
    options.logger.warn(
      `[controller] the volume is too small for RETENTION: DATA_DIR: "${gib(roomBytes)} GiB" of about ${gib(needed)} GiB; enlarge it, lengthen COLLECTION_INTERVAL (spec.collectionInterval of the MeteringPolicy) or shorten RETENTION (spec.retention)`,
    );
  });
}

function gib(bytes: number): string {
  return (bytes / GIB).toFixed(1);
}
