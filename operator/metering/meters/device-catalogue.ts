import { greatest } from '../../model/extremes.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { DeviceSlice, PublishedDevice } from '../timelines/resource-slice.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';

/** The devices that a node had during `[from, to)`. */
export interface PublishedStretch {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly PublishedGpu[];
}

/** One physical GPU, by the device or one of the devices that it is published as. */
export interface PublishedGpu {
  readonly driver: string;
  readonly device: PublishedDevice;
}

/** What drivers publish of their devices, over time. */
export interface DeviceCatalogue {
  /**
   * What a device was at a moment. A driver that restarts withdraws its slices while its devices are
   * in use: then what it last said of the device holds, else what it said first.
   */
  find(device: AllocatedDevice, at: number): PublishedDevice | undefined;
  /** The physical GPUs that are tied to a node, of these drivers; stretches without holes. */
  on(
    node: string,
    drivers: readonly string[],
    from: number,
    to: number,
  ): readonly PublishedStretch[];
  /** How many slices of a node were left out, since they are more than any node has. */
  readonly omitted: ReadonlyMap<string, number>;
}

/**
 * Versions of slices of one node that are looked at, the newest first. With the 128 devices of a
 * slice that is more than a hundred times what a node of eight GPUs publishes with all cuts of them.
 */
export const MOST_SLICES_OF_NODE = 256;

/** Devices that are looked at for one node, each once for every change of any of its slices: some 50 ms. */
const MOST_POLLS_AT_DEVICES = 2_000_000;

/** Physical GPUs that a node may have. */
const MOST_GPUS_OF_NODE = 1_024;

type SliceSpan = Span<DeviceSlice>;

/** The slices of one pool. */
interface Pool {
  readonly driver: string;
  readonly spans: SliceSpan[];
  readonly byNode: Map<string, SliceSpan[]>;
  byDevice?: ReadonlyMap<string, readonly SliceSpan[]>;
  phases?: readonly Phase[];
}

/** A time in which the same slices of a pool hold, as far as generations decide it. */
interface Phase {
  readonly from: number;
  readonly to: number;
  /**
   * The newest one, whose slices alone hold once they are whole; undefined while they are being
   * published, and the older ones hold beside them.
   */
  readonly generation: number | undefined;
}

/** Every pool is looked through once, in the order of time, whatever number of nodes it serves. */
export function createDeviceCatalogue(
  slices: ObservationReader['resourceSlices'],
): DeviceCatalogue {
  const pools = new Map<string, Pool>();
  const poolsOfNode = new Map<string, Set<Pool>>();
  const omitted = new Map<string, number>();
  for (const timeline of slices.inNamespace('')) {
    for (const span of timeline.spans) {
      const { driver, pool: name, node } = span.state;
      const pool = getOrMake(pools, keyOf([driver, name]), () => newPool(driver));
      pool.spans.push(span);
      if (node === undefined) continue;
      getOrMake(pool.byNode, node, () => []).push(span);
      getOrMake(poolsOfNode, node, () => new Set()).add(pool);
    }
  }
  return {
    omitted,
    find: ({ driver, pool: name, device }, at) => {
      const pool = pools.get(keyOf([driver, name]));
      if (pool === undefined) return undefined;
      pool.byDevice ??= spansByDevice(pool.spans);
      let best: SliceSpan | undefined;
      for (const span of pool.byDevice.get(device) ?? []) {
        if (best === undefined || nearer(span, best, at) < 0) best = span;
      }
      return best?.state.devices.get(device);
    },
    on: (node, drivers, from, to) => {
      const own = [...(poolsOfNode.get(node) ?? [])]
        .filter(({ driver }) => drivers.includes(driver))
        .flatMap((pool) => (pool.byNode.get(node) ?? []).map((span) => ({ pool, span })))
        .filter(({ span }) => span.from < to && span.to > from);
      const newest = new Set(newestOf(own));
      const left = own.length - newest.size;
      if (left > 0) omitted.set(node, Math.max(left, omitted.get(node) ?? 0));
      return stretchesOf(left === 0 ? own : own.filter((one) => newest.has(one)), from, to);
    },
  };
}

function newPool(driver: string): Pool {
  return { driver, spans: [], byNode: new Map() };
}

function getOrMake<T>(map: Map<string, T>, key: string, make: () => T): T {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

function spansByDevice(spans: readonly SliceSpan[]): ReadonlyMap<string, readonly SliceSpan[]> {
  const byDevice = new Map<string, SliceSpan[]>();
  for (const span of spans) {
    for (const name of span.state.devices.keys()) getOrMake(byDevice, name, () => []).push(span);
  }
  return byDevice;
}

/** Below zero where the first span is to be preferred for that moment. */
function nearer(a: SliceSpan, b: SliceSpan, at: number): number {
  return distance(a, at) - distance(b, at) || newerFirst(a, b);
}

/** How far a span is from a moment; one that lies ahead is farther than any in the past. */
function distance({ from, to }: SliceSpan, at: number): number {
  if (from <= at && at < to) return -1;
  return to <= at ? at - to : Number.MAX_SAFE_INTEGER + from - at;
}

function newerFirst(a: SliceSpan, b: SliceSpan): number {
  return b.state.generation - a.state.generation || b.from - a.from;
}

interface OwnSlice {
  readonly pool: Pool;
  readonly span: SliceSpan;
}

/** As many of the newest as can be looked at in a moment. */
function newestOf(own: readonly OwnSlice[]): readonly OwnSlice[] {
  const sorted = own.toSorted((a, b) => b.span.from - a.span.from);
  let devices = 0;
  const beyond = sorted.findIndex(({ span }, index) => {
    devices += span.state.devices.size;
    // Each begins and ends a stretch.
    return index >= MOST_SLICES_OF_NODE || devices * 2 * (index + 1) > MOST_POLLS_AT_DEVICES;
  });
  return beyond === -1 ? sorted : sorted.slice(0, beyond);
}

function stretchesOf(own: readonly OwnSlice[], from: number, to: number): PublishedStretch[] {
  const byPool = [...Map.groupBy(own, ({ pool }) => pool)].map(([pool, slices]) => ({
    phases: (pool.phases ??= phasesOf(pool.spans)),
    next: 0,
    spans: slices.map(({ span }) => span),
  }));
  const edges = byPool.flatMap(({ phases, spans }) => [...phases, ...spans]);
  return splitAtEdges(from, to, edges).map(([start, end]) => {
    const gpus: PublishedGpu[] = [];
    for (const pool of byPool) {
      while ((pool.phases[pool.next]?.to ?? Infinity) <= start) pool.next += 1;
      const phase = pool.phases[pool.next];
      const room = MOST_GPUS_OF_NODE - gpus.length;
      if (phase !== undefined)
        for (const gpu of gpusAt(pool.spans, phase, start, room)) gpus.push(gpu);
    }
    return { from: start, to: end, gpus };
  });
}

/** What holds of a pool, from when to when; phases of the same kind in a row are one. */
function phasesOf(spans: readonly SliceSpan[]): readonly Phase[] {
  const changes = spans.flatMap((span) => [
    { at: span.from, span, begins: true },
    { at: span.to, span, begins: false },
  ]);
  const inOrder = changes
    // One of no length ends where it begins, and was never there.
    .filter(({ at, span }) => at < Infinity && span.from < span.to)
    .toSorted((a, b) => a.at - b.at);
  const present = new Map<number, Set<SliceSpan>>();
  const phases: Phase[] = [];
  let newest = -Infinity;
  for (const [index, { at, span, begins }] of inOrder.entries()) {
    const { generation } = span.state;
    const of = present.get(generation) ?? new Set<SliceSpan>();
    if (begins) {
      present.set(generation, of.add(span));
      newest = Math.max(newest, generation);
    } else if (of.delete(span) && of.size === 0) {
      present.delete(generation);
      if (generation === newest) newest = greatest(present.keys());
    }
    const to = inOrder[index + 1]?.at ?? Infinity;
    if (to === at || present.size === 0) continue;
    const published = present.get(newest);
    const [first] = published ?? [];
    const isComplete = (published?.size ?? 0) >= (first?.state.sliceCount ?? 0);
    const holds = isComplete ? newest : undefined;
    const last = phases.at(-1);
    if (last?.to === at && last.generation === holds) phases[phases.length - 1] = { ...last, to };
    else phases.push({ from: at, to, generation: holds });
  }
  return phases;
}

/** The physical GPUs of a pool on a node at a moment, by its slices there. */
function gpusAt(
  own: readonly SliceSpan[],
  { generation }: Phase,
  at: number,
  most: number,
): Iterable<PublishedGpu> {
  const gpus = new Map<string, PublishedGpu>();
  for (const { from, to, state } of own) {
    if (from > at || to <= at) continue;
    if (generation !== undefined && state.generation !== generation) continue;
    const { driver } = state;
    for (const device of state.devices.values()) {
      const isKnown = gpus.has(device.gpu);
      // A GPU is lost when all that it is published as is.
      if (isKnown ? device.lost === true : gpus.size >= most) continue;
      gpus.set(device.gpu, { driver, device });
    }
  }
  return gpus.values();
}
