import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { type ObjectLabels, objectLabels, sameLabels, sameOwnerLabels } from './object-labels.ts';
import {
  amountAt,
  conditionOf,
  countAt,
  identityOf,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { followRetained, type Timeline } from './timeline.ts';

/** The fields of a PersistentVolumeClaim that bear on billing. */
export interface VolumeClaimView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** Phase Bound: a volume exists for it, mounted or not. */
  readonly bound: boolean;
  /** Nano-bytes: the provisioned size, else the requested one. */
  readonly size: bigint;
  /** Storage class, `default` when the claim names none. */
  readonly storageClass: string;
}

/** A bound claim's billing state. */
export type VolumeState = Pick<VolumeClaimView, 'labels' | 'size' | 'storageClass'>;

const BETA_STORAGE_CLASS = 'volume.beta.kubernetes.io/storage-class';

/**
 * Reads the fields of a PersistentVolumeClaim that bear on billing; undefined for a malformed
 * object (docs/explanation/metering.md#volumes-and-load-balancers).
 */
export function projectVolumeClaim(
  object: RawObject,
  api: Api = API_OF_HOST,
): VolumeClaimView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const requested = recordAt(recordAt(spec, 'resources'), 'requests');
  return {
    ...identity,
    labels: objectLabels(metadata, api),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    bound: status['phase'] === 'Bound',
    size: amountAt(recordAt(status, 'capacity'), 'storage') ?? amountAt(requested, 'storage') ?? 0n,
    storageClass:
      textAt(spec, 'storageClassName') ??
      textAt(recordAt(metadata, 'annotations'), BETA_STORAGE_CLASS) ??
      'default',
  };
}

/** Follows a claim while it is bound. */
export function followVolume(
  timeline: Timeline<VolumeState>,
  { labels, size, storageClass, createdAt, bound }: VolumeClaimView,
  seen: Sighting,
): void {
  const state = bound ? { labels, size, storageClass } : undefined;
  followRetained(timeline, { state, createdAt }, seen, { isSame: sameVolume, least: leastVolume });
}

/** Returns the smaller size of one volume; undefined where owner or storage class changed. */
function leastVolume(a: VolumeState, b: VolumeState): VolumeState | undefined {
  if (a.storageClass !== b.storageClass || !sameOwnerLabels(a.labels, b.labels)) return undefined;
  return a.size < b.size ? { ...a, labels: b.labels } : b;
}

function sameVolume(a: VolumeState, b: VolumeState): boolean {
  return a.size === b.size && a.storageClass === b.storageClass && sameLabels(a.labels, b.labels);
}

/** The fields of a Service of type LoadBalancer that bear on billing. */
export interface LoadBalancerView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** It has an ingress address: the load balancer exists. */
  readonly provisioned: boolean;
}

/** A load balancer's billing state: it exists and has an owner. */
export type LoadBalancerState = Pick<LoadBalancerView, 'labels'>;

/**
 * Reads the fields of a Service of type LoadBalancer that bear on billing; undefined for other
 * types. It is one load balancer, however many ports and addresses it has. A Service that changes
 * its type appears or disappears.
 */
export function projectLoadBalancer(
  object: RawObject,
  api: Api = API_OF_HOST,
): LoadBalancerView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  if (recordAt(object, 'spec')['type'] !== 'LoadBalancer') return undefined;
  const ingress = listAt(recordAt(recordAt(object, 'status'), 'loadBalancer'), 'ingress');
  const hasAddress = ingress.some(
    (entry) => textAt(entry, 'ip') !== undefined || textAt(entry, 'hostname') !== undefined,
  );
  return {
    ...identity,
    labels: objectLabels(metadata, api),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    provisioned: hasAddress,
  };
}

/** Follows a load balancer while it has an address. */
export function followLoadBalancer(
  timeline: Timeline<LoadBalancerState>,
  { labels, provisioned, createdAt }: LoadBalancerView,
  seen: Sighting,
): void {
  followRetained(timeline, { state: provisioned ? { labels } : undefined, createdAt }, seen, OWNED);
}

/** The fields of a control plane StatefulSet or Deployment that bear on instance hours. */
export interface WorkloadView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** At least one replica is ready and nobody has paused it. */
  readonly ready: boolean;
  /** When it became available; absent where the API has no time, as for StatefulSets. */
  readonly readyAt?: number;
}

/** A control plane workload's billing state: a replica of it is ready. */
export type WorkloadState = Pick<WorkloadView, 'labels'>;

/**
 * Reads the fields of a control plane workload that bear on instance hours; undefined for a
 * malformed object (docs/explanation/metering.md#instance-hours).
 */
export function projectWorkload(object: RawObject): WorkloadView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  const status = recordAt(object, 'status');
  const available = conditionOf(status, 'Available');
  const readyAt =
    available?.['status'] === 'True' ? timeAt(available, 'lastTransitionTime') : undefined;
  return {
    ...identity,
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    ready: countAt(status, 'readyReplicas') > 0 && !isPaused(metadata),
    readyAt,
  };
}

/** The command line pauses by an annotation, the platform's sleep mode by a label. */
function isPaused(metadata: RawObject): boolean {
  return (
    textAt(recordAt(metadata, 'annotations'), 'loft.sh/paused') === 'true' ||
    textAt(recordAt(metadata, 'labels'), 'loft.sh/sleep-mode') === 'true'
  );
}

/** Follows a control plane workload while a replica of it is ready. */
export function followWorkload(
  timeline: Timeline<WorkloadState>,
  { labels, ready, readyAt: since, createdAt }: WorkloadView,
  seen: Sighting,
): void {
  const state = ready ? { labels } : undefined;
  const version = since === undefined ? { state, createdAt } : { state, createdAt, since };
  followRetained(timeline, version, seen, OWNED);
}

/** While the owner is unknown during a change, nobody is billed. */
const OWNED = {
  isSame: sameOwner,
  least: <S extends { labels: ObjectLabels }>(a: S, b: S): S | undefined =>
    sameOwnerLabels(a.labels, b.labels) ? b : undefined,
};

function sameOwner(a: { labels: ObjectLabels }, b: { labels: ObjectLabels }): boolean {
  return sameLabels(a.labels, b.labels);
}
