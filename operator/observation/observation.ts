import { type ClaimState, finishClaim, followClaim } from './claim-timeline.ts';
import { followHolding } from './held-timeline.ts';
import type { LoadBalancerView } from './load-balancer.ts';
import type { NodeView } from './node.ts';
import type { NodeSettings, NodeState } from './node-state.ts';
import { followNode } from './node-timeline.ts';
import { type ObjectLabels, sameLabels } from './object-labels.ts';
import { finishPod, followPod, type PodState } from './pod-timeline.ts';
import type { PodView } from './pod.ts';
import type { ResourceClaimView } from './resource-claim.ts';
import { type DeviceSlice, type ResourceSliceView, sameSlice, sliceOf } from './resource-slice.ts';
import {
  createTenantClusterTimelines,
  type TenantClusterTimelines,
} from './tenant-cluster-timeline.ts';
import { enter, type Timeline } from './timeline.ts';
import { createTimelines, type Timelines } from './timelines.ts';
import { createUsageSamples, type UsageSamples } from './usage-samples.ts';
import type { VolumeClaimView } from './volume-claim.ts';
import type { WorkloadView } from './workload.ts';

/** A bound claim's billing state. */
export interface VolumeState {
  readonly labels: ObjectLabels;
  /** Nano-bytes. */
  readonly size: bigint;
  readonly storageClass: string;
}

/** A load balancer's billing state: that it exists, and whose it is. */
export interface LoadBalancerState {
  readonly labels: ObjectLabels;
}

/** A control plane workload's billing state: that a replica of it is ready. */
export interface WorkloadState {
  readonly labels: ObjectLabels;
}

/** Everything observed: one timeline store per kind, each of them the handler of its watch. */
export interface Observation {
  readonly pods: Timelines<PodView, PodState>;
  readonly nodes: Timelines<NodeView, NodeState>;
  readonly volumes: Timelines<VolumeClaimView, VolumeState>;
  readonly loadBalancers: Timelines<LoadBalancerView, LoadBalancerState>;
  readonly workloads: Timelines<WorkloadView, WorkloadState>;
  /**
   * Pods that may hold GPUs, and nodes, once more: GPUs are metered with the resource claims, whose
   * watch may fail while CPU and memory go on, and what a closed window billed differs between them.
   */
  readonly gpuPods: Timelines<PodView, PodState>;
  readonly gpuNodes: Timelines<NodeView, NodeState>;
  readonly resourceClaims: Timelines<ResourceClaimView, ClaimState>;
  readonly resourceSlices: Timelines<ResourceSliceView, DeviceSlice>;
  readonly tenantClusters: TenantClusterTimelines;
  readonly usage: UsageSamples;
}

export interface ObservationOptions {
  /** The settings in force for nodes. */
  readonly nodeSettings: () => NodeSettings;
  /** The last window end at or before a moment when WATCH_DELETIONS is false; the moment itself when it is true. */
  readonly billedUntil: (present: number) => number;
  /** Told of every API time that had to be moved. */
  readonly countClamped?: () => void;
  /** Since when a node is one of another cluster that only shows here; undefined when it is none. */
  readonly foreignSince?: (node: NodeView) => number | undefined;
  /** Whether a claim or Service is a tenant's view of one that is billed on the host cluster. */
  readonly isSynced?: (object: VolumeClaimView | LoadBalancerView) => boolean;
}

/** Empty timelines of every kind. */
export function createObservation(options: ObservationOptions): Observation {
  const { billedUntil, nodeSettings, countClamped, foreignSince, isSynced } = options;
  const pods = (kind: string): Timelines<PodView, PodState> =>
    createTimelines<PodView, PodState>(
      {
        kind,
        createdAt: (pod) => pod.createdAt,
        follow: followPod,
        finish: finishPod,
        billedUntil,
      },
      countClamped,
    );
  const nodes = (kind: string): Timelines<NodeView, NodeState> =>
    createTimelines<NodeView, NodeState>(
      {
        kind,
        createdAt: (node) => node.createdAt,
        follow: (timeline, node, seen) =>
          followNode(timeline, node, nodeSettings(), seen, foreignSince?.(node)),
        finish: endAtLatest,
        billedUntil,
      },
      countClamped,
    );
  const gpuPods = pods('gpu-pod');
  const resourceClaims = createTimelines<ResourceClaimView, ClaimState>(
    {
      kind: 'resource-claim',
      createdAt: (claim) => claim.createdAt,
      follow: followClaim,
      finish: finishClaim,
      isNeeded: (claim, horizon) => hasLivingPod(gpuPods, claim, horizon),
    },
    countClamped,
  );
  return {
    resourceClaims,
    resourceSlices: createTimelines<ResourceSliceView, DeviceSlice>(
      {
        kind: 'resource-slice',
        createdAt: (slice) => slice.createdAt,
        follow: (timeline, slice, seen) => {
          const { createdAt } = slice;
          followHolding(timeline, { state: sliceOf(slice), createdAt }, seen, sameSlice);
        },
        finish: endAtLatest,
        // A driver that restarts withdraws its slices; what runs meanwhile goes on using the devices.
        isNeeded: (slice) => isPoolInUse(resourceClaims, slice),
      },
      countClamped,
    ),
    pods: pods('pod'),
    gpuPods,
    nodes: nodes('node'),
    gpuNodes: nodes('gpu-node'),
    volumes: createTimelines<VolumeClaimView, VolumeState>(
      {
        kind: 'volume',
        createdAt: (claim) => claim.createdAt,
        follow: (timeline, claim, seen) => {
          const { labels, size, storageClass, createdAt } = claim;
          const state = claim.bound ? { labels, size, storageClass } : undefined;
          if (isSynced?.(claim) === true) enter(timeline, undefined, -Infinity);
          else followHolding(timeline, { state, createdAt }, seen, sameVolume);
        },
        finish: endAtLatest,
      },
      countClamped,
    ),
    loadBalancers: createTimelines<LoadBalancerView, LoadBalancerState>(
      {
        kind: 'load-balancer',
        createdAt: (service) => service.createdAt,
        follow: (timeline, service, seen) => {
          const { labels, provisioned, createdAt } = service;
          const state = provisioned ? { labels } : undefined;
          if (isSynced?.(service) === true) enter(timeline, undefined, -Infinity);
          else followHolding(timeline, { state, createdAt }, seen, sameOwner);
        },
        finish: endAtLatest,
      },
      countClamped,
    ),
    workloads: createTimelines<WorkloadView, WorkloadState>(
      {
        kind: 'workload',
        createdAt: (workload) => workload.createdAt,
        follow: (timeline, { labels, ready, readyAt, createdAt }, seen) => {
          const state = ready ? { labels } : undefined;
          const since = readyAt === undefined ? {} : { since: readyAt };
          followHolding(timeline, { state, createdAt, ...since }, seen, sameOwner);
        },
        finish: endAtLatest,
      },
      countClamped,
    ),
    tenantClusters: createTenantClusterTimelines(),
    usage: createUsageSamples(),
  };
}

function endAtLatest<S>(
  timeline: Timeline<S>,
  _last: unknown,
  _seen: unknown,
  latest: number,
): void {
  enter(timeline, undefined, latest);
}

/** A claim is in use for as long as its pods run, whatever has become of the claim itself. */
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

function sameVolume(a: VolumeState, b: VolumeState): boolean {
  return a.size === b.size && a.storageClass === b.storageClass && sameLabels(a.labels, b.labels);
}

function sameOwner(a: { labels: ObjectLabels }, b: { labels: ObjectLabels }): boolean {
  return sameLabels(a.labels, b.labels);
}
