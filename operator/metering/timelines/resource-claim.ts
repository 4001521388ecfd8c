import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { type ObjectLabels, objectLabels, sameLabels, withGpus } from './object-labels.ts';
import {
  amountAt,
  identityOf,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { currentState, enter, followRetained, type Timeline, widthOf } from './timeline.ts';

/** One device of a claim: one entry of its allocation results. */
export interface AllocatedDevice {
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
  /** Which share this is; only for devices that several claims can share. */
  readonly share?: string;
  /** A share's part of the device's capacities, nano-units by name; absent if the API has none. */
  readonly consumed?: ReadonlyMap<string, bigint>;
}

/** The devices that the scheduler allocated to a claim, unchanged until it deallocates them. */
export interface ClaimAllocation {
  /** In the order of the results, without those for administrative access, which take nothing. */
  readonly devices: readonly AllocatedDevice[];
  /** The node of the devices, where the allocation names a single one. */
  readonly node?: string;
}

/** The fields of a ResourceClaim that bear on billing. */
export interface ResourceClaimView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** Absent while the claim is not allocated. */
  readonly allocation?: ClaimAllocation;
  /** When it was allocated; absent where the API has no time. */
  readonly allocatedAt?: number;
  /** Uids of the pods that it is reserved for. */
  readonly pods: readonly string[];
  /** It is reserved for a consumer that is not a pod. */
  readonly otherConsumer: boolean;
}

/**
 * Reads the fields of a ResourceClaim that bear on billing; undefined for a malformed object
 * (docs/explanation/gpus.md#resource-claims). They are the same in v1, v1beta2 and v1beta1 of
 * `resource.k8s.io`.
 */
export function projectResourceClaim(
  object: RawObject,
  api: Api = API_OF_HOST,
): ResourceClaimView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  const status = recordAt(object, 'status');
  const consumers = listAt(status, 'reservedFor');
  return {
    ...identity,
    labels: isMadeForPod(metadata) ? NO_LABELS : withGpus(objectLabels(metadata, api), api),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    pods: consumers.filter(isPod).flatMap((consumer) => textAt(consumer, 'uid') ?? []),
    otherConsumer: consumers.some((consumer) => !isPod(consumer)),
    ...('allocation' in status ? allocated(recordAt(status, 'allocation')) : {}),
  };
}

/**
 * Whether the cluster made the claim for a pod, out of a template or for extended resources. Its
 * labels come from the template, whose author could name anybody with them.
 */
function isMadeForPod(metadata: RawObject): boolean {
  return listAt(metadata, 'ownerReferences').some(({ kind }) => kind === 'Pod');
}

const NO_LABELS: ObjectLabels = {};

function allocated(allocation: RawObject): Pick<ResourceClaimView, 'allocation' | 'allocatedAt'> {
  const results = listAt(recordAt(allocation, 'devices'), 'results');
  const node = onlyNode(recordAt(allocation, 'nodeSelector'));
  const allocatedAt = timeAt(allocation, 'allocationTimestamp');
  return {
    allocation: {
      devices: results.filter((result) => result['adminAccess'] !== true).flatMap(deviceOf),
      node,
    },
    allocatedAt,
  };
}

function deviceOf(result: RawObject): readonly AllocatedDevice[] {
  const driver = textAt(result, 'driver');
  const pool = textAt(result, 'pool');
  const device = textAt(result, 'device');
  if (driver === undefined || pool === undefined || device === undefined) return [];
  const share = textAt(result, 'shareID');
  const consumed = amountsOf(recordAt(result, 'consumedCapacity'));
  return [
    {
      driver,
      pool,
      device,
      share,
      ...(consumed.size === 0 ? {} : { consumed }),
    },
  ];
}

/** Quantities by name, in name order; malformed ones are left out. */
function amountsOf(quantities: RawObject): ReadonlyMap<string, bigint> {
  const amounts = new Map<string, bigint>();
  for (const name of Object.keys(quantities).toSorted()) {
    const amount = amountAt(quantities, name);
    if (amount !== undefined) amounts.set(name, amount);
  }
  return amounts;
}

/** Returns the node's name, where the selector is a single term that matches a single name. */
function onlyNode(selector: RawObject): string | undefined {
  const [term, ...terms] = listAt(selector, 'nodeSelectorTerms');
  if (term === undefined || terms.length > 0) return undefined;
  const field = listAt(term, 'matchFields').find(({ key }) => key === 'metadata.name');
  if (field?.['operator'] !== 'In' || !Array.isArray(field['values'])) return undefined;
  const [name, ...names]: unknown[] = field['values'];
  return names.length === 0 && typeof name === 'string' ? name : undefined;
}

function isPod(consumer: RawObject): boolean {
  return consumer['resource'] === 'pods';
}

/** A resource claim's state while it is allocated: nobody else can use its devices. */
export type ClaimState = Required<
  Pick<ResourceClaimView, 'labels' | 'allocation' | 'pods' | 'otherConsumer'>
>;

/**
 * Follows a claim from its allocation to its deallocation. A resumed watch reports all missed
 * versions at one moment. The states between stay as spans of zero length: they list which pods
 * used which devices, and the pods' times are known.
 */
export function followClaim(
  timeline: Timeline<ClaimState>,
  claim: ResourceClaimView,
  seen: Sighting,
): void {
  const { createdAt, allocatedAt } = claim;
  const since = allocatedAt === undefined ? {} : { since: allocatedAt };
  const state = stateOf(claim);
  const current = currentState(timeline);
  if (current === undefined) {
    followRetained(timeline, { state, createdAt, ...since }, seen, CLAIMS);
    return;
  }
  if (state !== undefined && sameClaim(current, state)) return;
  // Reservations change at one moment: the pods' own times bound their use.
  const goesOn = state !== undefined && sameAllocation(current.allocation, state.allocation);
  closeMoment(timeline, seen.from);
  enter(timeline, undefined, seen.from, goesOn ? 0 : widthOf(seen));
  if (state === undefined) return;
  const begun = goesOn ? seen.from : seen.trust(allocatedAt ?? seen.until);
  enter(timeline, state, Math.max(seen.from, begun));
}

const CLAIMS = { isSame: sameClaim, least: (_: ClaimState, next: ClaimState) => next };

/** Ends a claim that is gone; it had its devices until `latest`. */
export function finishClaim(
  timeline: Timeline<ClaimState>,
  _claim: ResourceClaimView,
  seen: Sighting,
  latest: number,
): void {
  closeMoment(timeline, latest);
  enter(timeline, undefined, latest, widthOf(seen));
}

/**
 * Closes the open span at its own start if it began at `at` or later. The change that follows would
 * remove it otherwise.
 */
function closeMoment(timeline: Timeline<ClaimState>, at: number): void {
  const last = timeline.spans.at(-1);
  if (last === undefined || last.to !== Infinity || last.from < at) return;
  timeline.spans = [...timeline.spans.slice(0, -1), { ...last, to: last.from }];
}

/** True when both allocate the same devices. */
export function sameAllocation(a: ClaimAllocation, b: ClaimAllocation): boolean {
  if (a === b) return true;
  return (
    a.node === b.node &&
    a.devices.length === b.devices.length &&
    a.devices.every((device, index) => isSameDevice(device, b.devices[index]))
  );
}

function stateOf(claim: ResourceClaimView): ClaimState | undefined {
  const { labels, allocation, pods, otherConsumer } = claim;
  return allocation && { labels, allocation, pods, otherConsumer };
}

function sameClaim(a: ClaimState, b: ClaimState): boolean {
  return (
    sameLabels(a.labels, b.labels) &&
    sameAllocation(a.allocation, b.allocation) &&
    a.otherConsumer === b.otherConsumer &&
    a.pods.length === b.pods.length &&
    a.pods.every((uid, index) => uid === b.pods[index])
  );
}

/** What a share consumes is fixed with its allocation, so it needs no comparison. */
function isSameDevice(a: AllocatedDevice, b: AllocatedDevice | undefined): boolean {
  return (
    a.device === b?.device && a.pool === b.pool && a.driver === b.driver && a.share === b.share
  );
}
