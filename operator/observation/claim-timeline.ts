import { followHolding } from './held-timeline.ts';
import { type ObjectLabels, sameLabels } from './object-labels.ts';
import type { AllocatedDevice, ClaimAllocation, ResourceClaimView } from './resource-claim.ts';
import type { Sighting } from './sighting.ts';
import type { Timeline } from './timeline.ts';

/** A resource claim's state while it is allocated: its devices are out of everybody else's reach. */
export interface ClaimState {
  readonly labels: ObjectLabels;
  readonly allocation: ClaimAllocation;
  /** uids of the pods it is reserved for. */
  readonly pods: readonly string[];
  /** It is reserved for something that is no pod. */
  readonly otherConsumer: boolean;
}

/** Follows a claim from its allocation until that is taken back. */
export function followClaim(
  timeline: Timeline<ClaimState>,
  claim: ResourceClaimView,
  seen: Sighting,
): void {
  const { createdAt, allocatedAt } = claim;
  const since = allocatedAt === undefined ? {} : { since: allocatedAt };
  followHolding(timeline, { state: stateOf(claim), createdAt, ...since }, seen, sameClaim);
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
