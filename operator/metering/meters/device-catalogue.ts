import { greatest } from '../../model/extremes.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { DeviceSlice, PublishedDevice } from '../timelines/resource-slice.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';

/** The physical GPUs that a node had during `[from, to)`. */
export interface PublishedStretch {
  readonly from: number;
  readonly to: number;
  readonly gpus: readonly PublishedGpu[];
}

/** One physical GPU, by one of the devices that it is published as. */
export interface PublishedGpu {
  readonly driver: string;
  readonly device: PublishedDevice;
}

/**
 * Limit on slice versions of one node, newest first. With 128 devices in a slice that is over a
 * hundred times what a node of eight GPUs publishes with all partitions.
 */
export const MOST_SLICES_OF_NODE = 256;

/** Limit on device visits for one node, one for every change of a slice: about 50 ms. */
const MOST_DEVICE_VISITS = 2_000_000;

/** Limit on physical GPUs of a node. */
const MOST_GPUS_OF_NODE = 1_024;

type SliceSpan = Span<DeviceSlice>;

interface Pool {
  readonly driver: string;
  readonly spans: SliceSpan[];
  readonly byNode: Map<string, SliceSpan[]>;
  byDevice?: ReadonlyMap<string, readonly SliceSpan[]>;
  phases?: readonly Phase[];
}

/** A time in which the same generation of a pool's slices counts. */
interface Phase {
  readonly from: number;
  readonly to: number;
  /**
   * The newest generation, once all its slices are published. Undefined before, while slices of all
   * generations count.
   */
  readonly generation: number | undefined;
}

/** The devices that drivers publish, over time. */
export class DeviceCatalogue {
  readonly #pools = new Map<string, Pool>();
  readonly #poolsOfNode = new Map<string, Set<Pool>>();
  readonly #omitted = new Map<string, number>();

  /** Reads each pool once in order of time, for all its nodes. */
  constructor(slices: ObservationReader['resourceSlices']) {
    for (const timeline of slices.inNamespace('')) {
      for (const span of timeline.spans) {
        const { driver, pool: name, node } = span.state;
        const pool = getOrMake(this.#pools, keyOf([driver, name]), () => newPool(driver));
        pool.spans.push(span);
        if (node === undefined) continue;
        getOrMake(pool.byNode, node, () => []).push(span);
        getOrMake(this.#poolsOfNode, node, () => new Set()).add(pool);
      }
    }
  }

  /** Number of slices of a node that were left out, because they are more than any node has. */
  get omitted(): ReadonlyMap<string, number> {
    return this.#omitted;
  }

  /**
   * Returns a device as of a moment. A driver that restarts withdraws its slices while its devices
   * are in use. Then its last publication before that moment counts, else the first one after.
   */
  find({ driver, pool: name, device }: AllocatedDevice, at: number): PublishedDevice | undefined {
    const pool = this.#pools.get(keyOf([driver, name]));
    if (pool === undefined) return undefined;
    pool.byDevice ??= spansByDevice(pool.spans);
    let best: SliceSpan | undefined;
    for (const span of pool.byDevice.get(device) ?? []) {
      if (best === undefined || nearer(span, best, at) < 0) best = span;
    }
    return best?.state.devices.get(device);
  }

  /** Returns the physical GPUs of a node, of these drivers, in stretches without holes. */
  on(
    node: string,
    drivers: readonly string[],
    from: number,
    to: number,
  ): readonly PublishedStretch[] {
    const own = [...(this.#poolsOfNode.get(node) ?? [])]
      .filter(({ driver }) => drivers.includes(driver))
      .flatMap((pool) => (pool.byNode.get(node) ?? []).map((span) => ({ pool, span })))
      .filter(({ span }) => span.from < to && span.to > from);
    const newest = new Set(newestOf(own));
    const left = own.length - newest.size;
    if (left > 0) this.#omitted.set(node, Math.max(left, this.#omitted.get(node) ?? 0));
    return stretchesOf(left === 0 ? own : own.filter((one) => newest.has(one)), from, to);
  }
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

/** Below zero where the first span is closer to the moment. */
function nearer(a: SliceSpan, b: SliceSpan, at: number): number {
  return distance(a, at) - distance(b, at) || newerFirst(a, b);
}

/** Distance of a span from a moment; a later span is farther than any earlier one. */
function distance({ from, to }: SliceSpan, at: number): number {
  if (from <= at && at < to) return -1;
  return to <= at ? at - to : Number.MAX_SAFE_INTEGER + from - at;
}

function newerFirst(a: SliceSpan, b: SliceSpan): number {
  return b.state.generation - a.state.generation || b.from - a.from;
}

interface PoolSlice {
  readonly pool: Pool;
  readonly span: SliceSpan;
}

/** Returns the newest slices within the limits. */
function newestOf(own: readonly PoolSlice[]): readonly PoolSlice[] {
  const sorted = own.toSorted((a, b) => b.span.from - a.span.from);
  let devices = 0;
  const beyond = sorted.findIndex(({ span }, index) => {
    devices += span.state.devices.size;
    // Each slice begins and ends a stretch.
    return index >= MOST_SLICES_OF_NODE || devices * 2 * (index + 1) > MOST_DEVICE_VISITS;
  });
  return beyond === -1 ? sorted : sorted.slice(0, beyond);
}

function stretchesOf(own: readonly PoolSlice[], from: number, to: number): PublishedStretch[] {
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

/** Returns the phases of a pool; consecutive phases of one generation are joined. */
function phasesOf(spans: readonly SliceSpan[]): readonly Phase[] {
  const changes = spans.flatMap((span) => [
    { at: span.from, span, begins: true },
    { at: span.to, span, begins: false },
  ]);
  const inOrder = changes
    // A span of zero length never existed.
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
    const valid = isComplete ? newest : undefined;
    const last = phases.at(-1);
    if (last?.to === at && last.generation === valid) phases[phases.length - 1] = { ...last, to };
    else phases.push({ from: at, to, generation: valid });
  }
  return phases;
}

/** Returns the physical GPUs of a pool on a node at a moment, at most `most`. */
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
      // A GPU is lost when all its devices are.
      if (isKnown ? device.lost === true : gpus.size >= most) continue;
      gpus.set(device.gpu, { driver, device });
    }
  }
  return gpus.values();
}
