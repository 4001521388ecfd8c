import type { Settings } from '../config/settings.ts';
import { WORKLOAD_SELECTOR } from '../discovery/selection.ts';
import type { DiscoverySources } from '../discovery/sources.ts';
import {
  type ControlPlaneWorkload,
  controlPlaneWorkload,
  hostNamespace,
  PLATFORM_INSTANCES,
  platformInstance,
} from '../discovery/views.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { createSource } from '../kubernetes/namespaced-source.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { ReflectorMetrics } from '../kubernetes/metrics.ts';
import type { ResumePoint } from '../kubernetes/reflector-options.ts';
import type {
  ApiResource,
  Projected,
  Projection,
  Source,
  SourceHandler,
} from '../kubernetes/source.ts';
import { type LoadBalancerView, projectLoadBalancer } from '../observation/load-balancer.ts';
import { type NodeView, projectNode } from '../observation/node.ts';
import type { Observation } from '../observation/observation.ts';
import { only } from '../observation/only.ts';
import { mayHoldGpus, projectPod } from '../observation/pod.ts';
import { projectResourceClaim } from '../observation/resource-claim.ts';
import { projectResourceSlice } from '../observation/resource-slice.ts';
import { projectVolumeClaim, type VolumeClaimView } from '../observation/volume-claim.ts';
import { projectWorkload, type WorkloadView } from '../observation/workload.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CollectorSources } from '../windows/collector.ts';
import type { RestoredJournal } from '../windows/journal.ts';

export interface WatchesOptions {
  readonly connection: Connection;
  readonly settings: Settings;
  readonly observation: Observation;
  readonly restored: RestoredJournal;
  /** A tenant cluster's workload or Namespace has come, changed or gone. */
  readonly onTenantClusterChange: () => void;
  /** Told besides, of what tenant clusters' own APIs may show as well. */
  readonly alsoTold: () => AlsoTold;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: ReflectorMetrics;
}

export interface AlsoTold {
  readonly nodes: SourceHandler<NodeView>;
  readonly volumes: SourceHandler<VolumeClaimView>;
  readonly loadBalancers: SourceHandler<LoadBalancerView>;
}

/** The one watch of each kind (design 6), and who is told of it. */
export interface Watches {
  readonly discovery: DiscoverySources;
  readonly collector: CollectorSources;
  readonly all: readonly Pick<Source<Projected>, 'run' | 'ready' | 'health' | 'resource'>[];
}

interface WatchExtras<T> {
  readonly resume?: ResumePoint<T> | undefined;
  readonly labelSelector?: string;
  readonly clusterScoped?: true;
}

const CORE = { group: '', version: 'v1' } as const;
const APPS = { group: 'apps', version: 'v1' } as const;
const RESOURCE = { group: 'resource.k8s.io', version: 'v1' } as const;
/** Clusters before 1.34 serve a beta of Dynamic Resource Allocation, or none. */
const RESOURCE_VERSIONS = [RESOURCE.version, 'v1beta2', 'v1beta1'];

export function createWatches(options: WatchesOptions): Watches {
  const { observation, restored, settings, clock, random, logger, metrics } = options;
  const { labelPrefix } = settings.identity;
  const { watchNamespaces } = settings.discovery;
  const connection = preferServedVersion({
    connection: options.connection,
    group: RESOURCE.group,
    versions: RESOURCE_VERSIONS,
  });

  const watch = <T extends Projected>(
    resource: ApiResource,
    project: Projection<T>,
    handlers: readonly SourceHandler<T>[],
    more: WatchExtras<T> = {},
  ): Source<T> =>
    createSource<T>({
      connection,
      resource,
      project,
      handlers,
      clock,
      random,
      logger,
      metrics,
      namespaces: more.clusterScoped ? [] : watchNamespaces,
      ...(more.labelSelector === undefined ? {} : { labelSelector: more.labelSelector }),
      ...(more.resume === undefined ? {} : { resume: more.resume }),
    });

  const { resume } = restored;
  const pods = watch(
    { ...CORE, plural: 'pods' },
    projectPod,
    [observation.pods, only(mayHoldGpus, observation.gpuPods)],
    { resume: resume.pods },
  );
  const nodes = watch(
    { ...CORE, plural: 'nodes' },
    projectNode,
    [observation.nodes, observation.gpuNodes, later(() => options.alsoTold().nodes)],
    { resume: resume.nodes, clusterScoped: true },
  );
  const resourceClaims = watch(
    { ...RESOURCE, plural: 'resourceclaims' },
    projectResourceClaim,
    [observation.resourceClaims],
    { resume: resume.resourceClaims },
  );
  const resourceSlices = watch(
    { ...RESOURCE, plural: 'resourceslices' },
    projectResourceSlice,
    [observation.resourceSlices],
    { resume: resume.resourceSlices, clusterScoped: true },
  );
  const volumes = watch(
    { ...CORE, plural: 'persistentvolumeclaims' },
    projectVolumeClaim,
    [observation.volumes, later(() => options.alsoTold().volumes)],
    { resume: resume.volumes },
  );
  const loadBalancers = watch(
    { ...CORE, plural: 'services' },
    projectLoadBalancer,
    [observation.loadBalancers, later(() => options.alsoTold().loadBalancers)],
    { resume: resume.loadBalancers },
  );

  const tell = { upserted: options.onTenantClusterChange, deleted: options.onTenantClusterChange };
  const workload = controlPlaneView(labelPrefix);
  const statefulSets = watch<ControlPlaneWorkload & WorkloadView>(
    { ...APPS, plural: 'statefulsets' },
    workload,
    [observation.workloads, tell],
    { labelSelector: WORKLOAD_SELECTOR },
  );
  const deployments = watch<ControlPlaneWorkload & WorkloadView>(
    { ...APPS, plural: 'deployments' },
    workload,
    [observation.workloads, tell],
    { labelSelector: WORKLOAD_SELECTOR },
  );
  const namespaces = watch({ ...CORE, plural: 'namespaces' }, hostNamespace(labelPrefix), [tell], {
    clusterScoped: true,
  });
  const instances = watch(PLATFORM_INSTANCES, platformInstance(labelPrefix), [tell], {
    clusterScoped: true,
  });
  const workloads = [statefulSets, deployments];
  const held = { volumes, loadBalancers, resourceClaims, resourceSlices };
  return {
    discovery: { statefulSets, deployments, namespaces, instances },
    collector: { pods, nodes, ...held, workloads },
    all: [pods, nodes, ...Object.values(held), ...workloads, namespaces, instances],
  };
}

/** A handler that is made after the watch. */
function later<T extends Projected>(handler: () => SourceHandler<T>): SourceHandler<T> {
  return {
    upserted: (next, previous, arrival) => handler().upserted(next, previous, arrival),
    deleted: (last, arrival) => handler().deleted(last, arrival),
  };
}

/** One copy of a workload for both who look at it: whose it is, and when it was ready. */
function controlPlaneView(labelPrefix: string): Projection<ControlPlaneWorkload & WorkloadView> {
  const identify = controlPlaneWorkload(labelPrefix);
  return (object) => {
    const identified = identify(object);
    const observed = identified === undefined ? undefined : projectWorkload(object);
    return identified && observed && { ...observed, ...identified };
  };
}
