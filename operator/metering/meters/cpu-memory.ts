import { larger } from '../../model/decimal.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { PodState } from '../timelines/pod.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { UsageSample } from '../timelines/usage-samples.ts';
import { billedSplit, chargeIdentity, type NodePlace, type Split } from './charge-identity.ts';
import { noteControlPlane } from './meter-reports.ts';
import { addTo, type Charge, type Evidence } from './tally.ts';
import {
  chargeOf,
  isBilledHere,
  isExcludedNamespace,
  type Meter,
  type MeterInput,
  podBillingMode,
} from './meter.ts';
import { nodesByName } from './node-owners.ts';
import { createWindowVisitor, onLateNodes, type WindowSpan, visitPast } from './window-spans.ts';

/** The two charges that a pod adds to. */
interface PodCharges {
  readonly cpu: Charge;
  readonly memory: Charge;
}

type Basis = TenantCluster['metering']['cpuMemoryBasis'];

const NANOS = 1_000_000_000n;

/**
 * CPU and memory of pods on shared nodes, or on a tenant cluster's own, on its basis: `usage`
 * (samples), `requests`, or `max` of both per pod and resource (docs/explanation/metering.md#cpu-and-memory).
 * Split by capacity type, zone and, when asked, by namespace and queue. Nothing is billed on a node that is
 * down, nor on one that the tenant cluster is billed whole. A stretch without a sample is unknown: it
 * is reported, not billed; basis `max` then goes on with the requests.
 */
export const meterCpuAndMemory: Meter = function* (input) {
  const pods = createPodMeter(input);
  for (const [, timelines] of input.observation.pods.namespaces()) {
    for (const timeline of timelines) {
      pods.measure(timeline);
      yield;
    }
  }
  yield* pods.measurePast();
};

/** Measures CPU and memory of one pod after the other. */
function createPodMeter(input: MeterInput) {
  const nodeAt = nodesByName(input);
  const chargesFor = createChargeCache(input);
  const eachStretch = (
    piece: WindowSpan<PodState>,
    use: (stretch: WindowSpan<PodState>, node: NodeState | undefined) => void,
  ): void => {
    const { podLifetime } = piece.cluster.metering;
    if (piece.state.phase === 'bound' && podLifetime === 'running') return;
    if (isExcludedNamespace(input, piece.cluster, piece.timeline.namespace)) return;
    const stretches = nodeAt(piece.state.node, piece.from, piece.to, piece.asBilled);
    for (const { from, to, state, owner } of stretches) {
      if (state?.down === true || owner?.id === piece.cluster.id) continue;
      if (!isBilledHere(input, state)) continue;
      const complete = from === piece.from && to === piece.to;
      use(complete ? piece : { ...piece, from, to }, state);
    }
  };
  const visit = (piece: WindowSpan<PodState>): void => {
    eachStretch(piece, (stretch, node) => {
      addPod(input, stretch, node, chargesFor(piece.cluster, node, piece.state));
    });
  };
  const visitFree = (piece: WindowSpan<PodState>): void => {
    eachStretch(piece, (stretch) => {
      for (const { from, to, cpu } of ratesOf(input, stretch)) {
        noteControlPlane(input.diagnostics, piece.timeline, { cpu: cpu * BigInt(to - from) });
      }
    });
  };
  return {
    /** What is charged of it inside the window. */
    measure: createWindowVisitor(input, visit, visitFree),
    /** What is carried into the window, of all of them, one after the other. */
    measurePast: () => visitPast(input, input.observation.pods, visit, onLateNodes(input)),
  };
}

function addPod(
  input: MeterInput,
  piece: WindowSpan<PodState>,
  node: NodeState | undefined,
  charges: PodCharges,
): void {
  // Of several in one window the last is reported.
  if (!piece.carried) reportBasis(charges, piece.cluster.metering.cpuMemoryBasis);
  const evidence = evidenceOf(piece, node, input.window.start);
  for (const rates of ratesOf(input, piece)) {
    const { from, to } = rates;
    if (!rates.isKnown) noteUnsampled(input, piece, from, to);
    add(charges, piece, evidence, to - from, rates);
  }
}

interface Rates {
  readonly from: number;
  readonly to: number;
  /** False where the basis needs a sample and there is none. */
  readonly isKnown: boolean;
  /** Nano-cores, and nano-bytes. */
  readonly cpu: bigint;
  readonly memory: bigint;
}

/** What a pod uses by the basis of its tenant cluster, in order. */
function* ratesOf(input: MeterInput, piece: WindowSpan<PodState>): Generator<Rates> {
  const { cpuMemoryBasis: basis } = piece.cluster.metering;
  const { requests } = piece.state;
  if (basis === 'requests') {
    const { cpu, memory } = requests;
    yield { from: piece.from, to: piece.to, isKnown: true, cpu, memory };
    return;
  }
  const { usage } = input.observation;
  const hold = input.settings.sampleValidMs;
  for (const { from, to, sample } of usage.stretches(
    piece.timeline.uid,
    piece.from,
    piece.to,
    hold,
  )) {
    const used = usedBy(sample);
    const cpu = basis === 'max' ? larger(used.cpu, requests.cpu) : used.cpu;
    const memory = basis === 'max' ? larger(used.memory, requests.memory) : used.memory;
    yield { from, to, isKnown: sample !== undefined, cpu, memory };
  }
}

function add(
  charges: PodCharges,
  { carried, weight, uncertain }: WindowSpan<PodState>,
  evidence: Evidence,
  ms: number,
  rates: { readonly cpu: bigint; readonly memory: bigint },
): void {
  const part = { carried, weight, ms, uncertain };
  addTo(charges.cpu, part, rates.cpu, evidence);
  addTo(charges.memory, part, rates.memory, evidence);
}

function evidenceOf(
  piece: WindowSpan<PodState>,
  node: NodeState | undefined,
  start: number,
): Evidence {
  const { timeline, state, carried, mapped } = piece;
  const [from, to] = [piece.from - start, piece.to - start];
  return { kind: 'Pod', object: timeline, state, node, mapped, from, to, carried };
}

function usedBy(sample: UsageSample | undefined): {
  readonly cpu: bigint;
  readonly memory: bigint;
} {
  if (sample === undefined) return { cpu: 0n, memory: 0n };
  return { cpu: BigInt(sample.cpu), memory: BigInt(sample.memory) * NANOS };
}

/**
 * Metrics servers need two scrapes of a pod before they say anything of it; until then its silence is
 * no gap.
 */
const YOUNG_MS = 60_000;

/**
 * A pod without a sample is unknown in two situations:
 * 1. Before this process began to sample: what a process before it sampled is lost.
 * 2. Once the pod is older than two intervals, and than {@link YOUNG_MS}.
 */
function noteUnsampled(
  input: MeterInput,
  piece: WindowSpan<PodState>,
  from: number,
  to: number,
): void {
  if (piece.carried || piece.state.phase === 'bound') return;
  const { sampledFrom } = input.observation.usage;
  const grownUp = piece.since + Math.max(input.settings.sampleValidMs, YOUNG_MS);
  noteUnknown(input, piece, from, Math.min(to, sampledFrom));
  noteUnknown(input, piece, Math.max(from, sampledFrom, grownUp), to);
}

function noteUnknown(
  input: MeterInput,
  piece: WindowSpan<PodState>,
  from: number,
  to: number,
): void {
  if (from >= to) return;
  const { unsampled } = input.diagnostics;
  const before = unsampled.get(piece.cluster.id) ?? { podMs: 0, from, to };
  unsampled.set(piece.cluster.id, {
    podMs: before.podMs + to - from,
    from: Math.min(before.from, from),
    to: Math.max(before.to, to),
  });
}

/** Finds a pod's charges without building an identity for every pod: nodes of one place share them. */
function createChargeCache(input: MeterInput) {
  const caches = new Map<TenantCluster, Map<NodePlace, Map<string, PodCharges>>>();
  const placeOf = createPlaces();
  return (cluster: TenantCluster, node: NodeState | undefined, pod: PodState): PodCharges => {
    const place = placeOf(node);
    const split = billedSplit(cluster, pod.labels);
    const byPlace = caches.get(cluster) ?? new Map<NodePlace, Map<string, PodCharges>>();
    caches.set(cluster, byPlace);
    const bySplit = byPlace.get(place) ?? new Map<string, PodCharges>();
    byPlace.set(place, bySplit);
    const known = bySplit.get(split.key);
    if (known !== undefined) return known;
    const charges = createCharges(input, cluster, place, split);
    bySplit.set(split.key, charges);
    return charges;
  };
}

/** One value for all nodes that are in one place and bought alike; a node never seen has none of it. */
function createPlaces(): (node: NodeState | undefined) => NodePlace {
  const places = new Map<string, NodePlace>();
  const known = new Map<NodeState | undefined, NodePlace>();
  return (node) => {
    let place = known.get(node);
    if (place !== undefined) return place;
    const { capacityType = 'on-demand', zone, region } = node ?? {};
    const key = keyOf([capacityType, zone, region]);
    place = places.get(key) ?? { capacityType, zone, region };
    places.set(key, place);
    known.set(node, place);
    return place;
  };
}

function createCharges(
  input: MeterInput,
  cluster: TenantCluster,
  node: NodePlace,
  split: Split,
): PodCharges {
  const parts = {
    node,
    split,
    dimensions: { billing_mode: podBillingMode(input), capacity_type: node.capacityType },
  } as const;
  const { settings } = input;
  const cpu = chargeOf(input, chargeIdentity(cluster, 'tenant_cpu_core_hours', settings, parts));
  const memory = chargeOf(
    input,
    chargeIdentity(cluster, 'tenant_memory_gb_hours', settings, parts),
  );
  const charges = { cpu, memory };
  if (cpu.properties['basis'] === undefined) reportBasis(charges, cluster.metering.cpuMemoryBasis);
  return charges;
}

function reportBasis({ cpu, memory }: PodCharges, basis: Basis): void {
  cpu.properties['basis'] = basis;
  memory.properties['basis'] = basis;
}
