import { followHolding } from './held-timeline.ts';
import { type ObjectLabels, sameLabels } from './object-labels.ts';
import type { AllocatedDevice, ClaimAllocation, ResourceClaimView } from './resource-claim.ts';
import type { Sighting } from './sighting.ts';
import { enter, type Timeline } from './timeline.ts';

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
 * Follows a claim from its allocation until that is taken back. A watch that is resumed tells of all
 * that was missed at one moment: what the claim was in between is kept all the same, because it says
 * which pods used which devices, and the times of those are known.
 */
export function followClaim(
  timeline: Timeline<ClaimState>,
  claim: ResourceClaimView,
  seen: Sighting,
): void {
  const { createdAt, allocatedAt } = claim;
  const since = allocatedAt === undefined ? {} : { since: allocatedAt };
  const state = withPodsOf(momentary(timeline, seen.at), stateOf(claim));
  if (state === undefined) keepMoment(timeline, seen.at);
  followHolding(timeline, { state, createdAt, ...since }, seen, sameClaim);
}

/** The claim is gone; it held its devices until `latest`. */
export function finishClaim(
  timeline: Timeline<ClaimState>,
  _claim: ResourceClaimView,
  _seen: Sighting,
  latest: number,
): void {
  keepMoment(timeline, latest);
  enter(timeline, undefined, latest);
}

/** The state that is not known to have held for any time when the next one comes. */
function momentary(timeline: Timeline<ClaimState>, at: number): ClaimState | undefined {
  const last = timeline.spans.at(-1);
  return last?.to === Infinity && last.from >= at ? last.state : undefined;
}

function withPodsOf(
  before: ClaimState | undefined,
  state: ClaimState | undefined,
): ClaimState | undefined {
  if (before === undefined || state === undefined) return state;
  if (!sameAllocation(before.allocation, state.allocation)) return state;
  return { ...state, pods: [...new Set([...before.pods, ...state.pods])] };
}

/** Gives a state that would vanish the millisecond before. */
function keepMoment(timeline: Timeline<ClaimState>, at: number): void {
  const state = momentary(timeline, at);
  if (state !== undefined) enter(timeline, state, at - 1);
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
