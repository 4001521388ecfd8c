import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { type KubeObject, objectPath } from '../simulator/objects.ts';
import {
  acceptPod,
  containerTimes,
  finishContainers,
  runContainers,
  runInitContainer,
} from '../simulator/pod-lifecycle.ts';
import { podObject } from '../simulator/pods.ts';
import { syncedMeta } from '../simulator/synced.ts';

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
  readonly shape: Shape;
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
  readonly nodes: readonly string[];
  readonly random: () => number;
  readonly startsPerSecond: number;
  /** Of the longest pod, milliseconds; the shortest lives one second. */
  readonly longestMs: number;
  readonly log: (line: string) => void;
}

const SHORTEST_MS = 1_000;
const GRACE_SECONDS = 30;

/** Starts pods until `signal` is aborted, then waits until all have ended; gives their lives. */
export async function runWorkload(
  options: WorkloadOptions,
  signal: AbortSignal,
): Promise<readonly PodLife[]> {
  const { random, startsPerSecond, log } = options;
  const lives: PodLife[] = [];
  const running = new Set<Promise<void>>();
  for (let count = 0; !signal.aborted; count += 1) {
    const life = live(options, `p${count}`)
      .then((ended) => void lives.push(ended))
      .catch((error: unknown) => log(`workload: pod p${count}: ${String(error)}`))
      .finally(() => running.delete(life));
    running.add(life);
    const pause = (1000 / startsPerSecond) * (0.5 + random());
    await delay(pause, undefined, { signal }).catch(() => undefined);
  }
  await Promise.all(running);
  return lives;
}

async function live(options: WorkloadOptions, name: string): Promise<PodLife> {
  const { api, random } = options;
  const cluster = pick(options.clusters, random);
  const shape = pick(SHAPES, random);
  const lifetime = SHORTEST_MS * (options.longestMs / SHORTEST_MS) ** random();
  const withInit = random() < 0.2;
  const relabelled = random() < 0.2;
  const deleted = random() < 0.5;
  const meta = syncedMeta(cluster, name, namespaceOf(name));
  const requests = { cpu: shape.cpu, memory: shape.memory };
  const wanted = podObject(meta, pick(options.nodes, random), requests, 'Never', withInit);
  const { object: pod } = await api.ensure(wanted);
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
  const { mainStartedAt } = containerTimes(await read(api, path));
  if (mainStartedAt === undefined) throw new Error(`${name}: no start in its status`);
  await finishContainers(api, pod, mainStartedAt, Date.now());
  const finishTold = Date.now();
  const times = containerTimes(await read(api, path));
  // A kubelet removes at once what was deleted; what ended by itself stays to be looked at.
  if (!deleted) await delay(500 + 2_000 * random());
  await api.remove(path, 0);
  return {
    name,
    tenantCluster: tenantClusterId(cluster),
    startedAt: Date.parse(times.firstStartedAt ?? ''),
    finishedAt: Date.parse(times.finishedAt ?? ''),
    finishTold,
    removedAt: Date.now(),
    shape,
    ...(relabelledAt === undefined ? {} : { relabelledAt }),
  };
}

async function read(api: ApiClient, path: string): Promise<KubeObject> {
  return ((await api.get(path)) ?? {}) as unknown as KubeObject;
}

function pick<T>(values: readonly T[], random: () => number): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new RangeError('workload: nothing to choose from');
  return value;
}
