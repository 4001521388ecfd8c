import { Registry } from 'prom-client';
import { placeKey } from '../../../discovery/cluster-ids.ts';
import { findSyncedNamespaces } from '../../../discovery/vcluster/synced-namespaces.ts';
import type { Explanations } from '../../explanations/explanations.ts';
import { QueuedArrivals } from '../../../kubernetes/live-view.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import { Reflector } from '../../../kubernetes/reflector.ts';
import type { ResumePoint } from '../../../kubernetes/reflector-options.ts';
import type { Projected, Projection, SourceHandler } from '../../../kubernetes/source.ts';
import { createCapturingLogger } from '../../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { cluster as tenantCluster } from '../../meters/testing/objects.ts';
import { projectLoadBalancer, projectVolumeClaim } from '../../timelines/retained-objects.ts';
import { namespaceHandler } from '../../timelines/host-namespace.ts';
import { projectNode } from '../../timelines/node.ts';
import { createObservation } from '../../timelines/observation.ts';
import { forGpuPods, projectPod } from '../../timelines/pod.ts';
import { projectResourceClaim } from '../../timelines/resource-claim.ts';
import { projectResourceSlice } from '../../timelines/resource-slice.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import { createCollectorMetrics } from '../collector-metrics.ts';
import { Collector } from '../collector.ts';
import { hostWorkload, resumeWorkloads } from '../host-workload.ts';
import { restoreJournal } from '../journal.ts';
import { knownNamespace, resumeNamespaces } from '../known-namespace.ts';
import { createPodMetricsReader } from '../pod-metrics.ts';
import { settingsOf } from './harness.ts';
import { NO_TENANT_OBJECTS } from './no-tenant-objects.ts';

export const WINDOW_MS = 1000;
export const SETTLING_MS = 400;

const LABEL_PREFIX = 'meterfeed.io';

const FORGETTING = { recordsFor: async () => [] };

export interface RealMeteringOptions {
  readonly connection: Connection;
  readonly namespace: string;
  readonly ledger: Ledger;
  readonly explanations?: Pick<Explanations, 'recordsFor'>;
  readonly metering?: Parameters<typeof tenantCluster>[1];
  /** Names of its tenant clusters; `a` alone by default. */
  readonly releases?: readonly string[];
  /** Also watches the namespaces that their syncers map, so everything is watched. */
  readonly withMapped?: boolean;
}

/** Watches and meters one namespace of a real API server until it is stopped. */
export async function startRealMetering(options: RealMeteringOptions) {
  const { connection, namespace, ledger, explanations = FORGETTING, metering: own = {} } = options;
  const { releases = ['a'], withMapped = false } = options;
  const clock = systemClock;
  const logger = createCapturingLogger();
  const base = settingsOf({});
  const metering = { ...base.metering, windowMs: WINDOW_MS, settlingDelayMs: SETTLING_MS };
  const observation = createObservation({
    nodeSettings: () => metering,
    billedUntil: (present) => present,
  });
  const restored = await restoreJournal(ledger, observation, { logger, clock });
  const stop = new AbortController();
  const running: Promise<unknown>[] = [];
  const arrivals = new QueuedArrivals(logger);
  const watch = <T extends Projected>(
    plural: string,
    project: Projection<T>,
    handlers: readonly SourceHandler<T>[],
    resume?: ResumePoint<T>,
    group = '',
  ) => {
    const isClusterScoped = ['nodes', 'resourceslices', 'namespaces'].includes(plural);
    const source = new Reflector<T>({
      connection,
      resource: {
        group,
        version: 'v1',
        plural,
        ...(isClusterScoped || withMapped ? {} : { namespace }),
      },
      project,
      handlers,
      arrivals,
      clock,
      random: Math.random,
      logger,
      timings: { resumeSettling: 200 },
      resume,
    });
    running.push(source.run(stop.signal));
    return source;
  };
  const { resume } = restored;
  const owner = { namespace, createdAt: Date.now() - 3_600_000 };
  const clusters = releases.map((release) => tenantCluster(release, own, owner));
  const discover = (): void => {
    const found = withMapped ? namespaces.values() : [];
    const { byPlace } = findSyncedNamespaces({
      namespaces: [...found],
      clusters,
      watchNamespaces: [],
    });
    observation.tenantClusters.observe(
      clusters.map((cluster) => {
        const syncedNamespaces = byPlace.get(placeKey(cluster)) ?? cluster.syncedNamespaces;
        return { ...cluster, syncedNamespaces };
      }),
      Date.now(),
    );
  };
  let isListed = false;
  const rediscover = (): void => {
    if (isListed && withMapped) queueMicrotask(discover);
  };
  const namespaces = watch(
    'namespaces',
    knownNamespace(LABEL_PREFIX),
    [namespaceHandler(observation.namespaces), { upserted: rediscover, deleted: rediscover }],
    resumeNamespaces(resume.namespaces, LABEL_PREFIX),
  );
  const collector = new Collector({
    observation,
    tenants: NO_TENANT_OBJECTS,
    arrivals,
    restored,
    sources: {
      pods: watch(
        'pods',
        projectPod,
        [observation.pods, forGpuPods(observation.gpuPods)],
        resume.pods,
      ),
      nodes: watch('nodes', projectNode, [observation.nodes, observation.gpuNodes], resume.nodes),
      resourceClaims: watch(
        'resourceclaims',
        projectResourceClaim,
        [observation.resourceClaims],
        resume.resourceClaims,
        'resource.k8s.io',
      ),
      resourceSlices: watch(
        'resourceslices',
        projectResourceSlice,
        [observation.resourceSlices],
        resume.resourceSlices,
        'resource.k8s.io',
      ),
      volumes: watch(
        'persistentvolumeclaims',
        projectVolumeClaim,
        [observation.volumes],
        resume.volumes,
      ),
      loadBalancers: watch(
        'services',
        projectLoadBalancer,
        [observation.loadBalancers],
        resume.loadBalancers,
      ),
      workloads: (['statefulsets', 'deployments'] as const).map((plural) => {
        const reading = { plural, labelPrefix: LABEL_PREFIX };
        const point = resumeWorkloads(resume.workloads, reading);
        return watch(plural, hostWorkload(reading), [observation.workloads], point, 'apps');
      }),
      namespaces,
    },
    ledger,
    settings: () => ({ ...base, metering }),
    podMetrics: createPodMetricsReader(connection),
    clock,
    random: Math.random,
    logger,
    metrics: createCollectorMetrics(new Registry()),
    explanations,
  });
  if (withMapped) await namespaces.ready(stop.signal);
  isListed = true;
  discover();
  running.push(collector.run(stop.signal));
  return {
    collector,
    stop: async () => {
      stop.abort();
      await Promise.all(running);
    },
  };
}
