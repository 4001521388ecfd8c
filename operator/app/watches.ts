import type { Departed } from '../discovery/departures.ts';
import { WORKLOAD_SELECTOR } from '../discovery/vcluster/selection.ts';
import type { DiscoverySources } from '../discovery/sources.ts';
import { PLATFORM_INSTANCES, platformInstance } from '../discovery/vcluster/views.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { QueuedArrivals } from '../kubernetes/live-view.ts';
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
import {
  type LoadBalancerView,
  projectLoadBalancer,
  projectVolumeClaim,
  type VolumeClaimView,
} from '../metering/timelines/retained-objects.ts';
import { namespaceHandler } from '../metering/timelines/host-namespace.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import { forGpuPods, projectPod } from '../metering/timelines/pod.ts';
import {
  projectResourceClaim,
  type ResourceClaimView,
} from '../metering/timelines/resource-claim.ts';
import { projectResourceSlice } from '../metering/timelines/resource-slice.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { CollectorSources } from '../metering/windows/scope.ts';
import type { RestoredJournal } from '../metering/windows/journal.ts';
import {
  type HostWorkload,
  hostWorkload,
  resumeWorkloads,
  type WorkloadPlural,
} from '../metering/windows/host-workload.ts';
import { knownNamespace, resumeNamespaces } from '../metering/windows/known-namespace.ts';

interface WatchesOptions {
  readonly connection: Connection;
  readonly labelPrefix: string;
  /** Empty means all. */
  readonly watchNamespaces: readonly string[];
  readonly observation: Observation;
  readonly restored: RestoredJournal;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: ReflectorMetrics;
}

/** Receives the changes of the watches after the observation has applied them. */
interface HostListener {
  /**
   * Called when a tenant cluster's workload, Namespace or platform object is created, changed, or
   * deleted as `departed`.
   */
  readonly tenantClusters?: (departed?: Departed) => void;
  readonly nodes?: SourceHandler<NodeView>;
  readonly volumes?: SourceHandler<VolumeClaimView>;
  readonly loadBalancers?: SourceHandler<LoadBalancerView>;
}

/** The one watch of each kind, with its listeners. */
export interface Watches {
  readonly discovery: Omit<DiscoverySources, 'tenantObjects'>;
  readonly collector: CollectorSources;
  readonly arrivals: QueuedArrivals;
  readonly all: readonly Pick<Source<Projected>, 'run' | 'ready' | 'health' | 'resource'>[];
  /** Adds a listener that is built after the watches. Subscribe before the watches run. */
  subscribe(listener: HostListener): void;
}

const CORE = { group: '', version: 'v1' } as const;
const PODS = { ...CORE, plural: 'pods' };
const NODES = { ...CORE, plural: 'nodes' };
const APPS = { group: 'apps', version: 'v1' } as const;
const RESOURCE = { group: 'resource.k8s.io', version: 'v1' } as const;
/** Clusters before 1.34 serve a beta of Dynamic Resource Allocation, or no version. */
const RESOURCE_VERSIONS = [RESOURCE.version, 'v1beta2', 'v1beta1'];

type CreateWatch = <T extends Projected>(
  resource: ApiResource,
  project: Projection<T>,
  handlers: readonly SourceHandler<T>[],
  extras?: {
    readonly resume?: ResumePoint<T>;
    readonly labelSelector?: string;
    readonly clusterScoped?: true;
  },
) => Source<T>;

export function createWatches(options: WatchesOptions): Watches {
  const { observation, restored, labelPrefix } = options;
  const arrivals = new QueuedArrivals(options.logger);
  const watch = createWatchFactory(options, arrivals);
  const listeners: HostListener[] = [];
  const { resume } = restored;
  const pods = watch(PODS, projectPod, [observation.pods, forGpuPods(observation.gpuPods)], {
    resume: resume.pods,
  });
  const nodes = watch(
    NODES,
    projectNode,
    [observation.nodes, observation.gpuNodes, relay(listeners, (listener) => listener.nodes)],
    { resume: resume.nodes, clusterScoped: true },
  );
  const resourceClaims = watch<ResourceClaimView>(
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
  const volumes = watch<VolumeClaimView>(
    { ...CORE, plural: 'persistentvolumeclaims' },
    projectVolumeClaim,
    [observation.volumes, relay(listeners, (listener) => listener.volumes)],
    { resume: resume.volumes },
  );
  const loadBalancers = watch<LoadBalancerView>(
    { ...CORE, plural: 'services' },
    projectLoadBalancer,
    [observation.loadBalancers, relay(listeners, (listener) => listener.loadBalancers)],
    { resume: resume.loadBalancers },
  );

  const workloadsOf = (plural: WorkloadPlural): Source<HostWorkload> => {
    const reading = { plural, labelPrefix };
    return watch<HostWorkload>(
      { ...APPS, plural },
      hostWorkload(reading),
      [observation.workloads, reportOf(listeners, (last) => ({ kind: 'workload', last }))],
      {
        labelSelector: WORKLOAD_SELECTOR,
        resume: resumeWorkloads(resume.workloads, reading),
      },
    );
  };
  const statefulSets = workloadsOf('statefulsets');
  const deployments = workloadsOf('deployments');
  const namespaces = watch(
    { ...CORE, plural: 'namespaces' },
    knownNamespace(labelPrefix),
    [
      namespaceHandler(observation.namespaces),
      reportOf(listeners, (last) => ({ kind: 'namespace', last })),
    ],
    { resume: resumeNamespaces(resume.namespaces, labelPrefix), clusterScoped: true },
  );
  const instances = watch(
    PLATFORM_INSTANCES,
    platformInstance(labelPrefix),
    [reportOf(listeners, (last) => ({ kind: 'instance', last }))],
    { clusterScoped: true },
  );
  const workloads = [statefulSets, deployments];
  const hostObjects = { volumes, loadBalancers, resourceClaims, resourceSlices };
  return {
    discovery: { statefulSets, deployments, namespaces, instances },
    collector: { pods, nodes, ...hostObjects, workloads, namespaces },
    arrivals,
    all: [pods, nodes, ...Object.values(hostObjects), ...workloads, namespaces, instances],
    subscribe: (listener) => void listeners.push(listener),
  };
}

/** Reports every change of an object to the listeners, and a deletion as a departure. */
function reportOf<T extends Projected>(
  listeners: readonly HostListener[],
  departed: (last: T) => Departed,
): SourceHandler<T> {
  const reportAll = (what?: Departed): void => {
    for (const listener of listeners) listener.tenantClusters?.(what);
  };
  return { upserted: () => reportAll(), deleted: (last) => reportAll(departed(last)) };
}

function createWatchFactory(options: WatchesOptions, arrivals: QueuedArrivals): CreateWatch {
  const { clock, random, logger, metrics, watchNamespaces } = options;
  const connection = preferServedVersion({
    connection: options.connection,
    group: RESOURCE.group,
    versions: RESOURCE_VERSIONS,
  });
  return (resource, project, handlers, { clusterScoped, ...extras } = {}) =>
    createSource({
      connection,
      resource,
      project,
      handlers,
      arrivals,
      clock,
      random,
      logger,
      metrics,
      namespaces: clusterScoped ? [] : watchNamespaces,
      ...extras,
    });
}

/** Passes changes on to the listeners subscribed by then. */
function relay<T extends Projected>(
  listeners: readonly HostListener[],
  handlerOf: (listener: HostListener) => SourceHandler<T> | undefined,
): SourceHandler<T> {
  return {
    upserted: (next, previous, arrival) => {
      for (const listener of listeners) handlerOf(listener)?.upserted(next, previous, arrival);
    },
    deleted: (last, arrival) => {
      for (const listener of listeners) handlerOf(listener)?.deleted(last, arrival);
    },
  };
}
