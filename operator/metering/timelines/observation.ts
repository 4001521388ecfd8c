import {
  followLoadBalancer,
  followVolume,
  followWorkload,
  type LoadBalancerState,
  type LoadBalancerView,
  type VolumeClaimView,
  type VolumeState,
  type WorkloadState,
  type WorkloadView,
} from './retained-objects.ts';
import { followNamespace, type HostNamespaces } from './host-namespace.ts';
import { followNode } from './follow-node.ts';
import type { NodeSettings, NodeState } from './node-state.ts';
import type { ProviderStatement } from './provided-node.ts';
import type { NodeView } from './node.ts';
import { finishPod, followPod, podDatedAt, type PodState, type PodView } from './pod.ts';
import {
  type ClaimState,
  finishClaim,
  followClaim,
  type ResourceClaimView,
} from './resource-claim.ts';
import { type DeviceSlice, type ResourceSliceView, SLICES, sliceOf } from './resource-slice.ts';
import type { Api } from './shared-values.ts';
import { type TenantClusterReader, TenantClusterTimelines } from './tenant-cluster-timeline.ts';
import { enter, followRetained } from './timeline.ts';
import type { Observed, TimelineReader, TimelineRules } from './timeline-rules.ts';
import { Timelines } from './timelines.ts';
import { UsageSamples } from './usage-samples.ts';

/** One store of timelines for each kind, which is also the handler of its watch. */
export interface Observation {
  readonly pods: Timelines<PodView, PodState>;
  readonly nodes: Timelines<NodeView, NodeState>;
  readonly volumes: Timelines<VolumeClaimView, VolumeState>;
  readonly loadBalancers: Timelines<LoadBalancerView, LoadBalancerState>;
  readonly workloads: Timelines<WorkloadView, WorkloadState>;
  /**
   * A second copy of nodes, and of pods that may use GPUs. GPUs are metered together with resource
   * claims, whose watch may fail while CPU and memory are still metered. So the two copies can have
   * different closed windows.
   */
  readonly gpuPods: Timelines<PodView, PodState>;
  readonly gpuNodes: Timelines<NodeView, NodeState>;
  readonly resourceClaims: Timelines<ResourceClaimView, ClaimState>;
  readonly resourceSlices: Timelines<ResourceSliceView, DeviceSlice>;
  /** Namespaces of the host cluster; their metadata dates changes of ownership. */
  readonly namespaces: HostNamespaces;
  readonly tenantClusters: TenantClusterTimelines;
  /** Namespaces with a syncer's labels that the last discovery pass gave to no tenant cluster. */
  readonly refusedNamespaces: Set<string>;
  readonly usage: UsageSamples;
}

/** The objects of a tenant cluster's own API. The tenant cluster itself is the only one in it. */
export interface TenantObservation extends Omit<Observation, 'tenantClusters'> {
  readonly tenantClusters: TenantClusterReader;
}

/** The observation as meters read it. */
export type ObservationReader = {
  readonly [Name in keyof TenantObservation]: TenantObservation[Name] extends Timelines<
    infer _View,
    infer S
  >
    ? TimelineReader<S>
    : TenantObservation[Name];
};

export interface ObservationOptions {
  /** The settings in force for nodes. */
  readonly nodeSettings: () => NodeSettings;
  /**
   * Returns the last window end at or before a moment when WATCH_DELETIONS is false, and the moment
   * itself when it is true.
   */
  readonly billedUntil: (present: number) => number;
  /** Called for every API time that was outside the possible range. */
  readonly countClamped?: () => void;
  /** Returns since when a node belongs to another cluster; undefined if it does not. */
  readonly foreignSince?: (node: NodeView) => number | undefined;
  /** Returns the provider's statement about a node; undefined where the node's own labels count. */
  readonly providerStatement?: (node: NodeView) => ProviderStatement | 'pending' | undefined;
  /** Whether a claim or Service is the tenant's copy of one that is billed on the host cluster. */
  readonly isSynced?: (object: VolumeClaimView | LoadBalancerView) => boolean;
}

/** Creates empty timelines of every kind. */
export function createObservation(options: ObservationOptions): Observation {
  const { billedUntil, nodeSettings, foreignSince, providerStatement, isSynced } = options;
  const api: Api = {};
  const timelines = <T extends Observed, S>(rules: TimelineRules<T, S>): Timelines<T, S> =>
    new Timelines(rules, options);
  const pods = (kind: string): Timelines<PodView, PodState> =>
    timelines({ kind, follow: followPod, finish: finishPod, datedAt: podDatedAt, billedUntil });
  const nodes = (kind: string): Timelines<NodeView, NodeState> =>
    timelines({
      kind,
      follow: (timeline, node, seen) =>
        followNode(timeline, node, nodeSettings(), seen, {
          foreignSince: foreignSince?.(node),
          statement: providerStatement?.(node),
          api,
        }),
      billedUntil,
    });
  const gpuPods = pods('gpu-pod');
  const namespaces: HostNamespaces = timelines({ kind: 'namespace', follow: followNamespace });
  const resourceClaims = timelines<ResourceClaimView, ClaimState>({
    kind: 'resource-claim',
    follow: followClaim,
    finish: finishClaim,
    isNeeded: (claim, horizon) => hasLivingPod(gpuPods, claim, horizon),
  });
  return {
    resourceClaims,
    resourceSlices: timelines<ResourceSliceView, DeviceSlice>({
      kind: 'resource-slice',
      follow: (timeline, slice, seen) => {
        const { createdAt } = slice;
        followRetained(timeline, { state: sliceOf(slice), createdAt }, seen, SLICES);
      },
      // A driver that restarts withdraws its slices, but running pods still use the devices.
      isNeeded: (slice) => isPoolInUse(resourceClaims, slice),
    }),
    pods: pods('pod'),
    gpuPods,
    nodes: nodes('node'),
    gpuNodes: nodes('gpu-node'),
    volumes: timelines<VolumeClaimView, VolumeState>({
      kind: 'volume',
      follow: (timeline, claim, seen) => {
        if (isSynced?.(claim) === true) enter(timeline, undefined, -Infinity);
        else followVolume(timeline, claim, seen);
      },
    }),
    loadBalancers: timelines<LoadBalancerView, LoadBalancerState>({
      kind: 'load-balancer',
      follow: (timeline, service, seen) => {
        if (isSynced?.(service) === true) enter(timeline, undefined, -Infinity);
        else followLoadBalancer(timeline, service, seen);
      },
    }),
    workloads: timelines({ kind: 'workload', follow: followWorkload }),
    namespaces,
    tenantClusters: new TenantClusterTimelines(namespaces),
    refusedNamespaces: new Set(),
    usage: new UsageSamples(),
  };
}

/** A claim is in use while its pods run, even after it is deleted. */
function hasLivingPod(
  pods: Observation['gpuPods'],
  claim: ResourceClaimView,
  horizon: number,
): boolean {
  for (const { uid, spans } of pods.inNamespace(claim.namespace)) {
    if ((spans.at(-1)?.to ?? 0) > horizon && claim.pods.includes(uid)) return true;
  }
  return false;
}

function isPoolInUse(claims: Observation['resourceClaims'], slice: DeviceSlice): boolean {
  for (const [, timelines] of claims.namespaces()) {
    for (const timeline of timelines) {
      const devices = timeline.spans.at(-1)?.state.allocation.devices ?? [];
      if (devices.some(({ pool, driver }) => pool === slice.pool && driver === slice.driver)) {
        return true;
      }
    }
  }
  return false;
}
