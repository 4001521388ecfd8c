import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { type ObjectLabels, objectLabels, sameLabels, sameOwnerLabels } from './object-labels.ts';
import {
  amountAt,
  conditionOf,
  countAt,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { followHolding, type Timeline } from './timeline.ts';

/** What of a PersistentVolumeClaim bears on billing. */
export interface VolumeClaimView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** Phase Bound: a volume exists for it, mounted or not. */
  readonly bound: boolean;
  /** Nano-bytes: what was provisioned, else what was asked for. */
  readonly size: bigint;
  /** Storage class, `default` when the claim names none. */
  readonly storageClass: string;
}

/** A bound claim's billing state. */
export interface VolumeState {
  readonly labels: ObjectLabels;
  /** Nano-bytes. */
  readonly size: bigint;
  readonly storageClass: string;
}

const BETA_STORAGE_CLASS = 'volume.beta.kubernetes.io/storage-class';

/**
 * Takes out of a PersistentVolumeClaim what bears on billing
 * (docs/explanation/metering.md#volumes-and-load-balancers).
 */
export function projectVolumeClaim(
  object: RawObject,
  api: Api = API_OF_HOST,
): VolumeClaimView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const requested = recordAt(recordAt(spec, 'resources'), 'requests');
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
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
  followHolding(timeline, { state, createdAt }, seen, { isSame: sameVolume, least: leastVolume });
}

/** The smaller of two sizes of one volume; whose it was and of which class must be known. */
function leastVolume(a: VolumeState, b: VolumeState): VolumeState | undefined {
  if (a.storageClass !== b.storageClass || !sameOwnerLabels(a.labels, b.labels)) return undefined;
  return a.size < b.size ? { ...a, labels: b.labels } : b;
}

function sameVolume(a: VolumeState, b: VolumeState): boolean {
  return a.size === b.size && a.storageClass === b.storageClass && sameLabels(a.labels, b.labels);
}

/** What of a Service of type LoadBalancer bears on billing. */
export interface LoadBalancerView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** It has an ingress address: the load balancer exists. */
  readonly provisioned: boolean;
}

/** A load balancer's billing state: that it exists, and whose it is. */
export interface LoadBalancerState {
  readonly labels: ObjectLabels;
}

/**
 * Takes out of a Service of type LoadBalancer what bears on billing; it is one load balancer,
 * however many ports and addresses it has. Services of other types, of which there are
 * many more, are not kept; one that changes its type comes or goes.
 */
export function projectLoadBalancer(
  object: RawObject,
  api: Api = API_OF_HOST,
): LoadBalancerView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  if (recordAt(object, 'spec')['type'] !== 'LoadBalancer') return undefined;
  const ingress = listAt(recordAt(recordAt(object, 'status'), 'loadBalancer'), 'ingress');
  const hasAddress = ingress.some(
    (entry) => textAt(entry, 'ip') !== undefined || textAt(entry, 'hostname') !== undefined,
  );
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
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
  followHolding(timeline, { state: provisioned ? { labels } : undefined, createdAt }, seen, OWNED);
}

/** What of a control plane StatefulSet or Deployment bears on instance hours. */
export interface WorkloadView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** At least one replica is ready and nobody has paused it. */
  readonly ready: boolean;
  /** When it became available, where the API says so (Deployments). */
  readonly readyAt?: number;
}

/** A control plane workload's billing state: that a replica of it is ready. */
export interface WorkloadState {
  readonly labels: ObjectLabels;
}

/** Takes out of a control plane workload what bears on instance hours (docs/explanation/metering.md#instance-hours). */
export function projectWorkload(object: RawObject): WorkloadView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const status = recordAt(object, 'status');
  const available = conditionOf(status, 'Available');
  const readyAt =
    available?.['status'] === 'True' ? timeAt(available, 'lastTransitionTime') : undefined;
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    ready: countAt(status, 'readyReplicas') > 0 && !isPaused(metadata),
    readyAt,
  };
}

/** The command line's pause is an annotation, the platform's sleep a label. */
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
  const held = since === undefined ? { state, createdAt } : { state, createdAt, since };
  followHolding(timeline, held, seen, OWNED);
}

/** While nobody knows whose it is it is nobody's. */
const OWNED = {
  isSame: sameOwner,
  least: <S extends { labels: ObjectLabels }>(a: S, b: S): S | undefined =>
    sameOwnerLabels(a.labels, b.labels) ? b : undefined,
};

function sameOwner(a: { labels: ObjectLabels }, b: { labels: ObjectLabels }): boolean {
  return sameLabels(a.labels, b.labels);
}
