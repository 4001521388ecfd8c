import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import type { SimulatedTenantCluster } from '../simulator/cloud.ts';
import { GPU_MODES, type GpuMode } from './modes.ts';
import { livePod, type Place, type PodEnd, SHAPES } from './pod-life.ts';

export interface WorkloadOptions {
  readonly api: ApiClient;
  readonly clusters: readonly SimulatedTenantCluster[];
  /** Namespaces that the tenant clusters' syncers have mapped, by the name of the tenant cluster. */
  readonly mapped: ReadonlyMap<string, string>;
  /** Nodes without GPUs. */
  readonly nodes: readonly string[];
  /** A node that will go down, as long as it takes pods. */
  readonly flaky: () => GpuMode | undefined;
  readonly random: () => number;
  readonly startsPerSecond: number;
  /** Of the longest pod, milliseconds; the shortest lives one second. */
  readonly longestMs: number;
  readonly log: (line: string) => void;
}

export interface Workload {
  /** Waits until all pods have ended after the signal; gives what became of each. */
  readonly ended: Promise<readonly PodEnd[]>;
  /** Pods that are on a flaky node, or are about to be. */
  readonly onFlaky: ReadonlySet<Promise<void>>;
}

const SHORTEST_MS = 1_000;
const GPU_SHARE = 0.4;
const FLAKY_SHARE = 0.1;
const MAPPED_SHARE = 0.15;
const FORCED_SHARE = 0.1;

/** Starts pods until `signal` is aborted. */
export function startWorkload(options: WorkloadOptions, signal: AbortSignal): Workload {
  const { random, startsPerSecond, log } = options;
  const ends: PodEnd[] = [];
  const running = new Set<Promise<void>>();
  const onFlaky = new Set<Promise<void>>();
  const slots = freeSlots();
  const start = (name: string): void => {
    const place = placeOf(options, slots);
    const life = live(options, name, place)
      .then((ended) => void ends.push(ended))
      .catch((error: unknown) => log(`workload: pod ${name}: ${String(error)}`))
      .finally(() => {
        running.delete(life);
        onFlaky.delete(life);
        if (place.slot !== undefined) slots.get(place.node)?.add(place.slot);
      });
    running.add(life);
    if (place.flaky) onFlaky.add(life);
  };
  const run = async (): Promise<readonly PodEnd[]> => {
    for (let count = 0; !signal.aborted; count += 1) {
      start(`p${count}`);
      const pause = (1000 / startsPerSecond) * (0.5 + random());
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
    await Promise.all(running);
    return ends;
  };
  return { ended: run(), onFlaky };
}

/** Those that are free, by node. */
type Slots = ReadonlyMap<string, Set<number>>;

function freeSlots(): Slots {
  return new Map(
    GPU_MODES.flatMap(({ node, slots }) =>
      slots === undefined ? [] : [[node, new Set(Array.from({ length: slots }).keys())]],
    ),
  );
}

function placeOf({ random, nodes, ...options }: WorkloadOptions, slots: Slots): Place {
  const dice = random();
  const flaky = dice < FLAKY_SHARE ? options.flaky() : undefined;
  if (flaky !== undefined) return { node: flaky.node, mode: flaky, flaky: true };
  if (dice >= GPU_SHARE) return { node: pick(nodes, random) };
  const mode = pick(GPU_MODES, random);
  const free = slots.get(mode.node);
  if (free === undefined) return { node: mode.node, mode };
  const [slot] = free;
  if (slot === undefined) return { node: pick(nodes, random) };
  free.delete(slot);
  return { node: mode.node, mode, slot };
}

function live(options: WorkloadOptions, name: string, place: Place): Promise<PodEnd> {
  const { api, random, longestMs } = options;
  const cluster = pick(options.clusters, random);
  const shape = pick(SHAPES, random);
  const lifetime = SHORTEST_MS * (longestMs / SHORTEST_MS) ** random();
  const mapped = random() < MAPPED_SHARE ? options.mapped.get(cluster.name) : undefined;
  const relabelled = random() < 0.2;
  // What a pod that nobody dates had left of a node that went down cannot be told.
  const forced = random() < FORCED_SHARE && place.flaky !== true && !relabelled;
  const deleted = random() < 0.5;
  return livePod(api, {
    name,
    cluster,
    place,
    shape,
    waitMs: 100 + 900 * random(),
    ...(random() < 0.2 && { initMs: 500 + 1_000 * random() }),
    mapped,
    runs: async ({ relabel }) => {
      await delay(lifetime / 2);
      if (relabelled) await relabel();
      await delay(lifetime / 2);
    },
    ending: forced ? 'forced' : deleted ? 'deleted' : 'finishes',
    keptMs: 500 + 2_000 * random(),
  });
}

export function pick<T>(values: readonly T[], random: () => number): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new RangeError('workload: nothing to choose from');
  return value;
}
