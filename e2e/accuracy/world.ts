import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, TENANT_CLUSTERS } from '../simulator/cloud.ts';
import { ensureTenantCluster } from '../simulator/tenant-clusters.ts';
import {
  changeLabels,
  createFlakyNodes,
  type NodeLife,
  type Outage,
  replaceNodes,
} from './node-changes.ts';
import type { PodLife } from './pod-life.ts';
import { seeded } from './seeded.ts';
import { StopHoldings } from './stop-holdings.ts';
import { StopNamespaces } from './stop-namespaces.ts';
import { StopNodes } from './stop-nodes.ts';
import { StopPods } from './stop-pods.ts';
import type { StopScene } from './stops.ts';
import type { Undated } from './undated.ts';
import { uninstallClusters, type Uninstalled } from './uninstalls.ts';
import { startWorkload } from './workload.ts';

export interface WorldOptions {
  readonly api: ApiClient;
  readonly seed: number;
  readonly durationMs: number;
  readonly log: (line: string) => void;
}

/** Everything that goes on in the cluster while the operator is watched. */
export interface World {
  /** What changes while the operator is down. */
  readonly stops: StopScene;
  /** Lets all of it come to its end; what was true. */
  end(): Promise<WorldTruth>;
}

export interface WorldTruth {
  readonly lives: readonly PodLife[];
  readonly undated: readonly Undated[];
  readonly outages: readonly Outage[];
  readonly nodes: readonly NodeLife[];
  readonly uninstalled: readonly Uninstalled[];
}

const STARTS_PER_SECOND = 10;

/** Has volumes and load balancers that are no part of what lasts. */
const MOVING: SimulatedTenantCluster = {
  name: 'moving',
  namespace: 'tenant-moving',
  kind: 'StatefulSet',
  app: 'vcluster',
  tenant: 'tenant-tenant-moving-moving',
  pods: [],
  claims: [],
  loadBalancers: [],
};

export async function startWorld({ api, seed, durationMs, log }: WorldOptions): Promise<World> {
  const stopping = new AbortController();
  const { signal } = stopping;
  await ensureTenantCluster(api, MOVING);
  const [green, burst, studio] = [named('green'), named('burst'), named('studio')] as const;
  const clusters = [named('web'), green, burst];
  // A sequence for each: how long a pod lives must not depend on what nodes do meanwhile.
  const changes = (number: number) => ({ api, random: seeded(seed + number), log });
  const flaky = createFlakyNodes(changes(2));
  const workload = startWorkload(
    {
      api,
      clusters,
      mapped: await mapNamespaces(api, clusters),
      nodes: ['cpu-1', 'cpu-2'],
      flaky: flaky.current,
      random: seeded(seed),
      startsPerSecond: STARTS_PER_SECOND,
      longestMs: Math.min(180_000, durationMs),
      log,
    },
    signal,
  );
  const labelling = changeLabels(changes(3), signal);
  const goingDown = flaky.run(workload, signal);
  const replacing = replaceNodes(changes(4), studio, signal);
  const leaving = uninstallClusters(changes(5), signal);
  // Where injecting faults fails, these are given up, and the failure is what is reported.
  for (const task of [workload.ended, labelling, goingDown, replacing, leaving]) {
    task.catch(() => undefined);
  }
  const pods = new StopPods({ ...changes(6), cluster: burst, neighbours: [named('blue'), green] });
  const holdings = new StopHoldings(api, MOVING, changes(7).random);
  const nodes = new StopNodes(api, [studio, burst], changes(8).random);
  const namespaces = new StopNamespaces({ ...changes(9), owners: [green, burst] });
  const scenes = [pods, holdings, nodes, namespaces];
  return {
    stops: {
      prepare: async () => void (await Promise.all(scenes.map((scene) => scene.prepare()))),
      change: async () => void (await Promise.all(scenes.map((scene) => scene.change()))),
    },
    end: async () => {
      stopping.abort();
      const ends = [...(await workload.ended), ...(await pods.end())];
      await labelling;
      return {
        lives: ends.flatMap((end) => (end.kind === 'dated' ? [end.life] : [])),
        undated: [
          ...ends.flatMap((end) => (end.kind === 'undated' ? [end.undated] : [])),
          ...(await holdings.end()),
          ...(await nodes.end()),
          ...(await namespaces.end()),
        ],
        outages: await goingDown,
        nodes: await replacing,
        uninstalled: await leaving,
      };
    },
  };
}

function named(name: string): SimulatedTenantCluster {
  const found = TENANT_CLUSTERS.find((cluster) => cluster.name === name);
  if (found === undefined) throw new Error(`accuracy: no tenant cluster: "${name}"`);
  return found;
}

/** Gives each a namespace on the host as its syncer would map one; by the name of the tenant cluster. */
async function mapNamespaces(
  api: ApiClient,
  clusters: readonly SimulatedTenantCluster[],
): Promise<ReadonlyMap<string, string>> {
  const mapped = clusters.map(({ name, namespace }) => ({
    name: `mapped-${name}`,
    labels: {
      'vcluster.loft.sh/vcluster-name': name,
      'vcluster.loft.sh/vcluster-namespace': namespace,
    },
  }));
  for (const metadata of mapped) {
    await api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata });
  }
  return new Map(clusters.map(({ name }) => [name, `mapped-${name}`]));
}
