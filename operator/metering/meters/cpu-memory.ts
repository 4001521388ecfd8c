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
import { onLateNodes, type WindowSpan, visitWindowSpans } from './window-spans.ts';

interface PodCharges {
  readonly cpu: Charge;
  readonly memory: Charge;
}

const NANOS = 1_000_000_000n;

/**
 * Charges CPU and memory of pods on shared or private nodes
 * (docs/explanation/metering.md#cpu-and-memory).
 * 1. The basis is `usage` (samples), `requests`, or `max` of both per pod and resource.
 * 2. Charges are split by capacity type and zone, and on request by namespace and queue.
 * 3. Nodes that are down, or billed to the tenant cluster as a node, are left out.
 * 4. A stretch without a sample is reported as unknown and not billed. The basis `max` bills its
 *    requests.
 */
export const meterCpuAndMemory: Meter = function* (input) {
  const nodeAt = nodesByName(input);
  const chargesFor = createChargeCache(input);
  const eachStretch = (
    span: WindowSpan<PodState>,
    use: (stretch: WindowSpan<PodState>, node: NodeState | undefined) => void,
  ): void => {
    const { podLifetime } = span.cluster.metering;
    if (span.state.phase === 'bound' && podLifetime === 'running') return;
    if (isExcludedNamespace(input, span.cluster, span.timeline.namespace)) return;
    const stretches = nodeAt(span.state.node, span.from, span.to, span.asBilled);
    for (const { from, to, state, owner } of stretches) {
      if (state?.down === true || owner?.id === span.cluster.id) continue;
      if (!isBilledHere(input, state)) continue;
      const complete = from === span.from && to === span.to;
      use(complete ? span : { ...span, from, to }, state);
    }
  };
  const visit = (span: WindowSpan<PodState>): void => {
    eachStretch(span, (stretch, node) => {
      addPod(input, stretch, node, chargesFor(span.cluster, node, span.state));
    });
  };
  const visitFree = (span: WindowSpan<PodState>): void => {
    eachStretch(span, (stretch) => {
      for (const { from, to, cpu } of ratesOf(input, stretch)) {
        noteControlPlane(input.diagnostics, span.timeline, { cpu: cpu * BigInt(to - from) });
      }
    });
  };
  const alsoLate = onLateNodes<PodState>(input, ({ node }) => node);
  yield* visitWindowSpans(input, input.observation.pods, visit, alsoLate, visitFree);
};

function addPod(
  input: MeterInput,
  span: WindowSpan<PodState>,
  node: NodeState | undefined,
  charges: PodCharges,
): void {
  // If the basis changed within the window, the last one is reported.
  if (!span.carried) reportBasis(charges, span.cluster.metering.cpuMemoryBasis);
  const evidence = evidenceOf(span, node, input.window.start);
  for (const rates of ratesOf(input, span)) {
    const { from, to } = rates;
    if (!rates.isKnown) noteUnsampled(input, span, from, to);
    const { carried, weight, uncertain } = span;
    const part = { carried, weight, ms: to - from, uncertain };
    addTo(charges.cpu, part, rates.cpu, evidence);
    addTo(charges.memory, part, rates.memory, evidence);
  }
}

interface Rates {
  readonly from: number;
  readonly to: number;
  /** False where the basis needs a sample and there is none. */
  readonly isKnown: boolean;
  /** Nanocores and nano-bytes. */
  readonly cpu: bigint;
  readonly memory: bigint;
}

/** Yields the rates of a pod by the basis of its tenant cluster, in order of time. */
function* ratesOf(input: MeterInput, span: WindowSpan<PodState>): Generator<Rates> {
  const { cpuMemoryBasis: basis } = span.cluster.metering;
  const { requests } = span.state;
  if (basis === 'requests') {
    const { cpu, memory } = requests;
    yield { from: span.from, to: span.to, isKnown: true, cpu, memory };
    return;
  }
  const { usage } = input.observation;
  const validMs = input.settings.sampleValidMs;
  for (const { from, to, sample } of usage.stretches(
    span.timeline.uid,
    span.from,
    span.to,
    validMs,
  )) {
    const used = usedBy(sample);
    const cpu = basis === 'max' ? larger(used.cpu, requests.cpu) : used.cpu;
    const memory = basis === 'max' ? larger(used.memory, requests.memory) : used.memory;
    yield { from, to, isKnown: sample !== undefined, cpu, memory };
  }
}

function evidenceOf(
  span: WindowSpan<PodState>,
  node: NodeState | undefined,
  start: number,
): Evidence {
  const { timeline, state, carried, mapped } = span;
  const [from, to] = [span.from - start, span.to - start];
  return { kind: 'Pod', object: timeline, state, node, mapped, from, to, carried };
}

function usedBy(sample: UsageSample | undefined): {
  readonly cpu: bigint;
  readonly memory: bigint;
} {
  if (sample === undefined) return { cpu: 0n, memory: 0n };
  return { cpu: BigInt(sample.cpu), memory: BigInt(sample.memory) * NANOS };
}

/** Metrics servers need two scrapes of a new pod; until then a missing sample is no gap. */
const YOUNG_MS = 60_000;

/**
 * Notes a stretch without a sample as unknown in two situations:
 * 1. Before this process began to sample: samples of an earlier process are lost.
 * 2. Once the pod is older than two intervals and than {@link YOUNG_MS}.
 */
function noteUnsampled(
  input: MeterInput,
  span: WindowSpan<PodState>,
  from: number,
  to: number,
): void {
  if (span.carried || span.state.phase === 'bound') return;
  const { sampledFrom } = input.observation.usage;
  const grownUp = span.since + Math.max(input.settings.sampleValidMs, YOUNG_MS);
  noteUnknown(input, span, from, Math.min(to, sampledFrom));
  noteUnknown(input, span, Math.max(from, sampledFrom, grownUp), to);
}

function noteUnknown(
  input: MeterInput,
  span: WindowSpan<PodState>,
  from: number,
  to: number,
): void {
  if (from >= to) return;
  const { unsampled } = input.diagnostics;
  const before = unsampled.get(span.cluster.id) ?? { podMs: 0, from, to };
  unsampled.set(span.cluster.id, {
    podMs: before.podMs + to - from,
    from: Math.min(before.from, from),
    to: Math.max(before.to, to),
  });
}

/** Finds a pod's charges by an identity that the pods on nodes of one place share. */
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

/** Returns one value for all nodes of equal location and capacity type; none for unknown nodes. */
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

function reportBasis(
  { cpu, memory }: PodCharges,
  basis: TenantCluster['metering']['cpuMemoryBasis'],
): void {
  cpu.properties['basis'] = basis;
  memory.properties['basis'] = basis;
}
