import { type ObjectLabels, sameLabels } from '../timelines/object-labels.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { PodState } from '../timelines/pod.ts';
import {
  type ClaimAllocation,
  type ClaimState,
  sameAllocation,
} from '../timelines/resource-claim.ts';
import { type Span, splitAtEdges, type Timeline } from '../timelines/timeline.ts';
import {
  type Holders,
  type HoldersByDevice,
  holdersAt,
  holdersByDevice,
  holdersWithin,
  sameHolders,
} from './device-holders.ts';
import type { TimelineView } from './window-spans.ts';

/** The use of a resource claim's devices during a span. */
export interface ClaimUse {
  readonly labels: ObjectLabels;
  /** `idle`: the devices are allocated, but no pod that they are reserved for is running. */
  readonly phase: 'idle' | 'running';
  readonly allocation: ClaimAllocation;
  /** The node; absent where it is unknown. */
  readonly node?: string;
  /** All claims' shares in each device, this one's included, in the order of the allocation. */
  readonly holders: readonly Holders[];
}

/** A use before the other claims of its devices are known. */
type Use = Omit<ClaimUse, 'holders'>;

/** Selects the known spans, or those that closed windows used. */
type SpansOf = <S>(timeline: Timeline<S>) => readonly Span<S>[];
const known: SpansOf = (timeline) => timeline.spans;
const asBilled: SpansOf = (timeline) => timeline.billed ?? timeline.spans;

/**
 * Derives when claims are in use: while any pod runs that the claim is reserved for. A pod cannot
 * run before its claims are allocated, and they are deallocated only after it ends. So the pod's
 * own API times bound the use, whatever the delays of controllers or watches.
 */
export function claimUses(
  observation: Pick<ObservationReader, 'pods' | 'resourceClaims'>,
): TimelineView<ClaimUse> {
  const { pods, resourceClaims } = observation;
  const after = usesBy(observation, known);
  const isLate = [...resourceClaims.late(), ...pods.late()].length > 0;
  const before = isLate ? usesBy(observation, asBilled) : after;
  const late: Timeline<ClaimUse>[] = [];
  const byNamespace = new Map<string, Timeline<ClaimUse>[]>();
  for (const [claim, spans] of after) {
    const billed = before.get(claim) ?? spans;
    const changed = billed !== spans && !sameSpans(billed, spans);
    const use = { ...claim, spans, billed: changed ? billed : undefined };
    byNamespace.set(claim.namespace, [...(byNamespace.get(claim.namespace) ?? []), use]);
    if (changed) late.push(use);
  }
  return {
    namespaces: () => byNamespace,
    inNamespace: (namespace) => byNamespace.get(namespace) ?? [],
    late: () => late,
  };
}

type Uses = ReadonlyMap<Timeline<ClaimState>, readonly Span<ClaimUse>[]>;

function usesBy(
  { pods, resourceClaims }: Pick<ObservationReader, 'pods' | 'resourceClaims'>,
  spansOf: SpansOf,
): Uses {
  const uses = new Map<Timeline<ClaimState>, readonly Span<Use>[]>();
  for (const [namespace, claims] of resourceClaims.namespaces()) {
    const podsByUid = new Map([...pods.inNamespace(namespace)].map((pod) => [pod.uid, pod]));
    const podSpans = (uid: string): readonly Span<PodState>[] => {
      const pod = podsByUid.get(uid);
      return pod === undefined ? [] : spansOf(pod);
    };
    for (const claim of claims) uses.set(claim, usesOfClaim(spansOf(claim), podSpans));
  }
  return withHolders(uses);
}

/** A stretch in which a claim had one allocation, with all pods that it was ever reserved for. */
interface Allocated {
  readonly from: number;
  to: number;
  readonly uncertainFrom: number;
  uncertainTo: number;
  readonly state: ClaimState;
  readonly pods: Set<string>;
  /** When a consumer that is not a pod used it; such consumers count as running. */
  readonly otherwise: Interval[];
}

interface Interval {
  readonly from: number;
  readonly to: number;
  readonly node?: string;
}

function usesOfClaim(
  spans: readonly Span<ClaimState>[],
  podSpans: (uid: string) => readonly Span<PodState>[],
): readonly Span<Use>[] {
  const all = allocations(spans);
  return all.flatMap((allocated, index) => {
    const [before, after] = [all[index - 1], all[index + 1]];
    const within = {
      from: isDated(before) ? before.to : -Infinity,
      to: isDated(after) ? after.from : Infinity,
    };
    const labels = ownerLabels(allocated, podSpans);
    const uses = usesWithin(allocated, labels, runningOf(allocated, within, podSpans));
    return withUncertain(uses, allocated, podSpans);
  });
}

/** Marks uses as uncertain that begin or end with an unobserved change of the claim or its pods. */
function withUncertain(
  uses: readonly Span<Use>[],
  allocated: Allocated,
  podSpans: (uid: string) => readonly Span<PodState>[],
): readonly Span<Use>[] {
  const uncertainAt = new Map<number, number>();
  const spans = [allocated, ...[...allocated.pods].flatMap(podSpans)];
  for (const { from, to, uncertainFrom = 0, uncertainTo = 0 } of spans) {
    if (uncertainFrom > 0)
      uncertainAt.set(from, Math.max(uncertainFrom, uncertainAt.get(from) ?? 0));
    if (uncertainTo > 0) uncertainAt.set(to, Math.max(uncertainTo, uncertainAt.get(to) ?? 0));
  }
  if (uncertainAt.size === 0) return uses;
  return uses.map((use) => ({
    ...use,
    uncertainFrom: uncertainAt.get(use.from) ?? 0,
    uncertainTo: uncertainAt.get(use.to) ?? 0,
  }));
}

/** False for an allocation that came and went unobserved: its times are unknown. */
function isDated(allocated: Allocated | undefined): allocated is Allocated {
  return allocated !== undefined && allocated.from < allocated.to;
}

function allocations(spans: readonly Span<ClaimState>[]): readonly Allocated[] {
  const stretches: Allocated[] = [];
  for (const { from, to, state, uncertainFrom = 0, uncertainTo = 0 } of spans) {
    const otherwise = state.otherConsumer ? [{ from, to }] : [];
    const last = stretches.at(-1);
    if (last !== undefined && last.to === from && continues(last.state, state)) {
      last.to = to;
      last.uncertainTo = uncertainTo;
      last.otherwise.push(...otherwise);
      for (const uid of state.pods) last.pods.add(uid);
      continue;
    }
    const uncertain = { uncertainFrom, uncertainTo };
    stretches.push({ from, to, ...uncertain, state, pods: new Set(state.pods), otherwise });
  }
  return stretches;
}

type Given = Pick<ClaimState, 'labels' | 'allocation'>;

function continues(a: Given, b: Given): boolean {
  return sameLabels(a.labels, b.labels) && sameAllocation(a.allocation, b.allocation);
}

/**
 * Returns the labels that decide a claim's owner
 * (docs/explanation/discovery.md#whose-an-object-is).
 * 1. The labels of its pods: a tenant may write a claim's labels through a template.
 * 2. Its own labels, while no pod of it is known. They are empty where the cluster made it for a
 *    pod.
 */
function ownerLabels(
  { state, pods }: Allocated,
  podSpans: (uid: string) => readonly Span<PodState>[],
): ObjectLabels {
  const { virtualNamespace } = state.labels;
  for (const uid of pods) {
    const pod = podSpans(uid).at(-1);
    if (pod === undefined) continue;
    const { labels } = pod.state;
    return virtualNamespace === undefined ? labels : { ...labels, virtualNamespace };
  }
  return state.labels;
}

/** Returns when any consumer ran, overlaps merged, between the claim's other allocations. */
function runningOf(
  { pods, otherwise }: Allocated,
  within: Interval,
  podSpans: (uid: string) => readonly Span<PodState>[],
): readonly Interval[] {
  const intervals = [...otherwise];
  for (const uid of pods) {
    for (const span of podSpans(uid)) {
      const from = Math.max(within.from, span.from);
      const to = Math.min(within.to, span.to);
      if (span.state.phase === 'running' && from < to) {
        intervals.push({ from, to, node: span.state.node });
      }
    }
  }
  const merged: Interval[] = [];
  for (const next of intervals.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || last.to < next.from) merged.push(next);
    else merged[merged.length - 1] = { ...next, ...last, to: Math.max(last.to, next.to) };
  }
  return merged;
}

function usesWithin(
  allocated: Allocated,
  labels: ObjectLabels,
  running: readonly Interval[],
): readonly Span<Use>[] {
  const { allocation } = allocated.state;
  const where = (node: string | undefined) => {
    const place = allocation.node ?? node;
    return place === undefined ? {} : { node: place };
  };
  const idle: Use = { labels, phase: 'idle', allocation, ...where(running[0]?.node) };
  const uses: Span<Use>[] = [];
  let at = allocated.from;
  for (const { from, to, node } of running) {
    if (at < from) uses.push({ from: at, to: from, state: idle });
    uses.push({ from, to, state: { ...idle, phase: 'running', ...where(node) } });
    at = to;
  }
  if (at < allocated.to) uses.push({ from: at, to: allocated.to, state: idle });
  return uses;
}

function sameSpans(a: readonly Span<ClaimUse>[], b: readonly Span<ClaimUse>[]): boolean {
  if (a.length !== b.length) return false;
  return a.every((span, index) => {
    const other = b[index];
    if (other === undefined || span.from !== other.from || span.to !== other.to) return false;
    return sameUse(span.state, other.state);
  });
}

function sameUse(a: ClaimUse, b: ClaimUse): boolean {
  return (
    a.phase === b.phase &&
    a.node === b.node &&
    continues(a, b) &&
    a.holders.every((holders, index) => sameHolders(holders, b.holders[index] ?? []))
  );
}

/**
 * Splits the spans of claims where another claim begins or stops sharing a device. The shares of
 * all claims split a device, so that it counts once.
 */
function withHolders(uses: ReadonlyMap<Timeline<ClaimState>, readonly Span<Use>[]>): Uses {
  const holdings = holdersByDevice([...uses.values()].flat());
  return new Map(
    [...uses].map(([claim, spans]) => [claim, spans.flatMap((span) => cutUse(span, holdings))]),
  );
}

/** Splits a use into stretches in which the shares of its devices do not change. */
function cutUse(use: Span<Use>, holdings: HoldersByDevice): readonly Span<ClaimUse>[] {
  const { from, to, state } = use;
  const shared = state.allocation.devices.map((device) =>
    holdersWithin(holdings, device, from, to),
  );
  return splitAtEdges(from, to, shared.flat()).map(([start, end]) => ({
    from: start,
    to: end,
    uncertainFrom: start === from ? (use.uncertainFrom ?? 0) : 0,
    uncertainTo: end === to ? (use.uncertainTo ?? 0) : 0,
    state: { ...state, holders: shared.map((stretches) => holdersAt(stretches, start)) },
  }));
}
