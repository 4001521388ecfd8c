import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { type KubeObject, objectPath } from '../simulator/objects.ts';
import {
  acceptPod,
  type ContainerTimes,
  containerTimes,
  finishContainers,
  runContainers,
  runInitContainer,
} from '../simulator/pod-lifecycle.ts';
import { podObject } from '../simulator/pods.ts';
import { syncedMeta } from '../simulator/synced.ts';
import { DRA_DEVICES, DRA_NODE, GPU_MODES, GPUS_PER_POD, type GpuMode } from './modes.ts';
import { addClaim, removeClaim, reserveClaim } from './nodes.ts';

/** What really happened to one pod: times as the API told them, and what it asked for. */
export interface PodLife {
  readonly name: string;
  readonly tenantCluster: string;
  /** Milliseconds since the epoch, whole seconds: the first start of a container. */
  readonly startedAt: number;
  /** The last finish of a container. */
  readonly finishedAt: number;
  /** When the final status was written, and when the object was gone; our clock. */
  readonly finishTold: number;
  readonly removedAt: number;
  /** When its claim was gone, for one that had one. */
  readonly claimRemovedAt?: number;
  readonly shape: Shape;
  readonly node: string;
  /** The way in which it held nine GPUs; undefined when it held none. */
  readonly mode?: GpuMode;
  /** When its namespace label changed, by our clock: nothing in the API says when. */
  readonly relabelledAt?: number;
}

/**
 * Requests of which each second is a whole number of billionths of an hour, so that the nine
 * decimals of an event lose nothing.
 */
export interface Shape {
  readonly cpu: string;
  readonly memory: string;
  /** Core-hours of one second, billionths. */
  readonly coreNanos: bigint;
  /** GiB-hours of one second, billionths. */
  readonly gibNanos: bigint;
}

const SHAPES: readonly Shape[] = [
  { cpu: '3600m', memory: '36Gi', coreNanos: 1_000_000n, gibNanos: 10_000_000n },
  { cpu: '1800m', memory: '9Gi', coreNanos: 500_000n, gibNanos: 2_500_000n },
  { cpu: '9', memory: '18Gi', coreNanos: 2_500_000n, gibNanos: 5_000_000n },
];

/** Namespaces inside the tenant cluster are the pod's own, so that its charges can be told apart. */
export const namespaceOf = (pod: string): string => `of-${pod}`;
export const laterNamespaceOf = (pod: string): string => `then-${pod}`;

export interface WorkloadOptions {
  readonly api: ApiClient;
  readonly clusters: readonly SimulatedTenantCluster[];
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
  /** Waits until all pods have ended after the signal; gives their lives. */
  readonly ended: Promise<readonly PodLife[]>;
  /** Pods that are on a flaky node, or are about to be. */
  readonly onFlaky: ReadonlySet<Promise<void>>;
}

const SHORTEST_MS = 1_000;
const GRACE_SECONDS = 30;
const GPU_SHARE = 0.4;
const FLAKY_SHARE = 0.1;

/** Starts pods until `signal` is aborted. */
export function startWorkload(options: WorkloadOptions, signal: AbortSignal): Workload {
  const { random, startsPerSecond, log } = options;
  const lives: PodLife[] = [];
  const running = new Set<Promise<void>>();
  const onFlaky = new Set<Promise<void>>();
  const slots = new Set(Array.from({ length: DRA_DEVICES / GPUS_PER_POD }, (_, slot) => slot));
  const start = (name: string): void => {
    const place = placeOf(options, slots);
    const life = live(options, name, place)
      .then((ended) => void lives.push(ended))
      .catch((error: unknown) => log(`workload: pod ${name}: ${String(error)}`))
      .finally(() => {
        running.delete(life);
        onFlaky.delete(life);
        if (place.slot !== undefined) slots.add(place.slot);
      });
    running.add(life);
    if (place.flaky) onFlaky.add(life);
  };
  const run = async (): Promise<readonly PodLife[]> => {
    for (let count = 0; !signal.aborted; count += 1) {
      start(`p${count}`);
      const pause = (1000 / startsPerSecond) * (0.5 + random());
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
    await Promise.all(running);
    return lives;
  };
  return { ended: run(), onFlaky };
}

/** Where a pod runs, and how it is given GPUs there. */
interface Place {
  readonly node: string;
  readonly mode?: GpuMode;
  readonly flaky?: true;
  /** The nine devices that its claim is given. */
  readonly slot?: number;
}

function placeOf({ random, nodes, ...options }: WorkloadOptions, slots: Set<number>): Place {
  const dice = random();
  const flaky = dice < FLAKY_SHARE ? options.flaky() : undefined;
  if (flaky !== undefined) return { node: flaky.node, mode: flaky, flaky: true };
  if (dice >= GPU_SHARE) return { node: pick(nodes, random) };
  const mode = pick(GPU_MODES, random);
  if (mode.node !== DRA_NODE) return { node: mode.node, mode };
  const [slot] = slots;
  if (slot === undefined) return { node: pick(nodes, random) };
  slots.delete(slot);
  return { node: mode.node, mode, slot };
}

async function live(options: WorkloadOptions, name: string, place: Place): Promise<PodLife> {
  const { api, random } = options;
  const { node, mode, slot } = place;
  const cluster = pick(options.clusters, random);
  const shape = pick(SHAPES, random);
  const lifetime = SHORTEST_MS * (options.longestMs / SHORTEST_MS) ** random();
  const withInit = random() < 0.2;
  const relabelled = random() < 0.2;
  const deleted = random() < 0.5;
  const meta = syncedMeta(cluster, name, namespaceOf(name));
  const requests = { cpu: shape.cpu, memory: shape.memory, ...mode?.requests };
  const wanted = podObject(meta, node, requests, 'Never', withInit);
  const claimMeta = { ...meta, name: `${name}-gpus` };
  const claim = slot === undefined ? undefined : await addClaim(api, claimMeta, slot, GPUS_PER_POD);
  const { object: pod } = await api.ensure(claim === undefined ? wanted : using(wanted, claim));
  if (claim !== undefined) await reserveClaim(api, claim, pod);
  await acceptPod(api, pod, Date.now());
  await delay(100 + 900 * random());
  let initStartedAt: number | undefined;
  if (withInit) {
    initStartedAt = Date.now();
    await runInitContainer(api, pod, initStartedAt);
    await delay(500 + 1_000 * random());
  }
  await runContainers(api, pod, Date.now(), initStartedAt);
  const path = objectPath(pod);
  let relabelledAt: number | undefined;
  await delay(lifetime / 2);
  if (relabelled) {
    const labels = { 'vcluster.loft.sh/namespace': laterNamespaceOf(name) };
    await api.patch(path, { metadata: { labels } });
    relabelledAt = Date.now();
  }
  await delay(lifetime / 2);
  if (deleted) await api.remove(path, GRACE_SECONDS);
  const { mainStartedAt } = await readTimes(api, path);
  if (mainStartedAt === undefined) throw new Error(`${name}: no start in its status`);
  await finishContainers(api, pod, mainStartedAt, Date.now());
  const finishTold = Date.now();
  const times = await readTimes(api, path);
  // A kubelet removes at once what was deleted; what ended by itself stays to be looked at.
  if (!deleted) await delay(500 + 2_000 * random());
  await api.remove(path, 0);
  const removedAt = Date.now();
  if (claim !== undefined) await removeClaim(api, claim);
  return {
    name,
    tenantCluster: tenantClusterId(cluster),
    startedAt: Date.parse(times.firstStartedAt ?? ''),
    finishedAt: Date.parse(times.finishedAt ?? ''),
    finishTold,
    removedAt,
    shape,
    node,
    ...(claim === undefined ? {} : { claimRemovedAt: Date.now() }),
    ...(mode === undefined ? {} : { mode }),
    ...(relabelledAt === undefined ? {} : { relabelledAt }),
  };
}

function using(pod: KubeObject, claim: KubeObject): KubeObject {
  const [container] = (pod.spec?.['containers'] ?? []) as readonly { readonly resources: object }[];
  const resources = { ...container?.resources, claims: [{ name: 'gpus' }] };
  const resourceClaims = [{ name: 'gpus', resourceClaimName: claim.metadata.name }];
  return {
    ...pod,
    spec: { ...pod.spec, resourceClaims, containers: [{ ...container, resources }] },
  };
}

/** None of a pod that is gone. */
async function readTimes(api: ApiClient, path: string): Promise<ContainerTimes> {
  const found = await api.get(path);
  return found === undefined ? {} : containerTimes(found);
}

export function pick<T>(values: readonly T[], random: () => number): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new RangeError('workload: nothing to choose from');
  return value;
}
