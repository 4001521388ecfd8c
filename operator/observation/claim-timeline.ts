import { followHolding } from './held-timeline.ts';
import { type ObjectLabels, sameLabels } from './object-labels.ts';
import type { AllocatedDevice, ClaimAllocation, ResourceClaimView } from './resource-claim.ts';
import type { Sighting } from './sighting.ts';
import { currentState, enter, type Timeline } from './timeline.ts';

/** A resource claim's state while it is allocated: its devices are out of everybody else's reach. */
export interface ClaimState {
  readonly labels: ObjectLabels;
  readonly allocation: ClaimAllocation;
  /** uids of the pods it is reserved for. */
  readonly pods: readonly string[];
  /** It is reserved for something that is no pod. */
  readonly otherConsumer: boolean;
}

/**
 * Follows a claim from its allocation until that is taken back. A watch that is resumed tells at one
 * moment of all that was missed: what the claim was in between stays as spans of no length, because
 * they say which pods used which devices, and the times of those pods are known.
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
  const changes = current !== undefined && (state === undefined || !sameClaim(current, state));
  if (changes) closeMoment(timeline, seen.at);
  followHolding(timeline, { state, createdAt, ...since }, seen, sameClaim);
}

/** The claim is gone; it held its devices until `latest`. */
export function finishClaim(
  timeline: Timeline<ClaimState>,
  _claim: ResourceClaimView,
  _seen: Sighting,
  latest: number,
): void {
  closeMoment(timeline, latest);
  enter(timeline, undefined, latest);
}

/** Keeps a state that is not known to have held for any time when it ends, and would vanish. */
function closeMoment(timeline: Timeline<ClaimState>, at: number): void {
  const last = timeline.spans.at(-1);
  if (last === undefined || last.to !== Infinity || last.from < at) return;
  timeline.spans = [...timeline.spans.slice(0, -1), { ...last, to: last.from }];
}

/** True when both give the same devices. */
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

/** What a share consumes is part of its allocation, and as fixed as that. */
function isSameDevice(a: AllocatedDevice, b: AllocatedDevice | undefined): boolean {
  return (
    a.device === b?.device && a.pool === b.pool && a.driver === b.driver && a.share === b.share
  );
}
