import { setTimeout as delay } from 'node:timers/promises';
import { type ApiClient, RefusedError } from './api-client.ts';
import { type Churn, type SimulatedTenantCluster, tenantClusterId } from './cloud.ts';
import { type KubeObject, objectPath } from './objects.ts';
import {
  acceptPod,
  type ContainerTimes,
  containerTimes,
  finishContainers,
  runContainers,
  runInitContainer,
} from './pod-lifecycle.ts';
import { podObject } from './pods.ts';
import { syncedMeta } from './synced.ts';
import type { TruthLog } from './truth.ts';

export interface ChurnOptions {
  readonly api: ApiClient;
  readonly cluster: SimulatedTenantCluster;
  readonly churn: Churn;
  readonly truth: TruthLog;
  readonly now: () => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

const GRACE_SECONDS = 30;
/** How long a pod that ended by itself stays to be looked at. */
const LINGER_MS = 2_000;

/**
 * Ends the pods of an earlier run, then begins new ones at random intervals until the signal is aborted. While they are not let
 * in, as those of a suspended tenant cluster, it goes on trying, and says so once.
 */
export async function runChurn(options: ChurnOptions): Promise<void> {
  const { api, cluster, churn, signal, random, log } = options;
  const lives = new Set<Promise<void>>();
  let isRefused = false;
  const report = (refusal: string | undefined): void => {
    if ((refusal !== undefined) === isRefused) return;
    isRefused = refusal !== undefined;
    log(`${cluster.name}: ${refusal ?? 'new pods are let in again'}`);
  };
  const begin = (life: Promise<void>): void => {
    const watched = life
      .catch((error: unknown) => {
        if (!signal.aborted) log(`simulator: ${churn.name}: ${String(error)}`);
      })
      .finally(() => lives.delete(watched));
    lives.add(watched);
  };
  for (const pod of await leftovers(api, cluster, churn)) begin(endPod(options, pod));
  while (!signal.aborted) {
    begin(live(options, report));
    // Between half and one and a half times the mean.
    await delay(churn.everyMs * (0.5 + random()), undefined, { signal }).catch(() => {});
  }
  await Promise.all(lives);
}

/** One pod, from creation to removal; every third has an init container. Tells whether it was let in, or why not. */
async function live(
  options: ChurnOptions,
  report: (refusal: string | undefined) => void,
): Promise<void> {
  const { api, churn, now, random, signal } = options;
  const [shortest, longest] = churn.lifetimeMs;
  const pause = (ms: number): Promise<void> => delay(ms, undefined, { signal });
  const withInit = random() < 1 / 3;
  const made = await api.ensure(newPod(options, withInit)).catch((error: unknown) => {
    if (error instanceof RefusedError) return error;
    throw error;
  });
  if (made instanceof RefusedError) return report(made.message);
  report(undefined);
  const { object: pod } = made;
  await acceptPod(api, pod, now());
  await pause(200 + 800 * random());
  let initStartedAt: number | undefined;
  if (withInit) {
    initStartedAt = now();
    await runInitContainer(api, pod, initStartedAt);
    await pause(1_000 + 1_000 * random());
  }
  await runContainers(api, pod, now(), initStartedAt);
  await pause(shortest + (longest - shortest) * random());
  await endPod(options, pod);
}

/**
 * Half of the pods are deleted, half complete and are tidied away later. Either way the final status
 * comes before the object goes, as with a real kubelet, and the truth is written in between.
 */
async function endPod(options: ChurnOptions, pod: KubeObject): Promise<void> {
  const { api, now, random, signal } = options;
  const path = objectPath(pod);
  const read = async (): Promise<ContainerTimes> => {
    const found = await api.get(path);
    return found === undefined ? {} : containerTimes(found);
  };
  const { firstStartedAt, mainStartedAt, finishedAt } = await read();
  // Left by a run that was killed before anything in it started: it goes without a trace.
  if (firstStartedAt === undefined) return api.remove(path, 0);
  if (mainStartedAt === undefined) {
    await runContainers(api, pod, now(), Date.parse(firstStartedAt));
    await delay(1_000, undefined, { signal });
  }
  const deleted = random() < 0.5;
  if (finishedAt === undefined) {
    if (deleted) await api.remove(path, GRACE_SECONDS);
    await finishContainers(api, pod, (await read()).mainStartedAt ?? firstStartedAt, now());
  }
  recordTruth(options, pod, await read());
  if (!deleted) await delay(LINGER_MS, undefined, { signal });
  return api.remove(path, 0);
}

function recordTruth(options: ChurnOptions, pod: KubeObject, times: ContainerTimes): void {
  const { cluster, churn, truth } = options;
  const { uid, name, labels } = pod.metadata;
  if (uid === undefined || times.firstStartedAt === undefined || times.finishedAt === undefined) {
    return;
  }
  truth.record({
    uid,
    namespace: cluster.namespace,
    name,
    tenantCluster: tenantClusterId(cluster),
    tenantNamespace: labels?.['vcluster.loft.sh/namespace'] ?? '',
    requests: churn.requests,
    startedAt: times.firstStartedAt,
    finishedAt: times.finishedAt,
  });
}

async function leftovers(
  api: ApiClient,
  cluster: SimulatedTenantCluster,
  churn: Churn,
): Promise<readonly KubeObject[]> {
  const pods = await api.list(
    `/api/v1/namespaces/${cluster.namespace}/pods?labelSelector=${encodeURIComponent(
      `vcluster.loft.sh/managed-by=${cluster.name},simulator/churn=${churn.name}`,
    )}`,
  );
  // Items of a list carry no kind of their own.
  return pods.map((pod) => ({ ...pod, apiVersion: 'v1', kind: 'Pod' }));
}

function newPod(options: ChurnOptions, withInit: boolean): KubeObject {
  const { cluster, churn, random } = options;
  const suffix = Math.floor(random() * 36 ** 6)
    .toString(36)
    .padStart(6, '0');
  const name = `${churn.name}-${suffix}`;
  const meta = syncedMeta(cluster, name, churn.ownNamespace ? name : 'default');
  const labels = { ...meta.labels, 'simulator/churn': churn.name };
  return podObject({ ...meta, labels }, churn.node, churn.requests, 'Never', withInit);
}
