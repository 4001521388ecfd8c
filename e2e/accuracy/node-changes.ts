import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { flakyMode, GPU_MODES, type GpuMode } from './modes.ts';
import { addNode, addPrivateNode, takeDown } from './nodes.ts';
import { passes } from './passes.ts';
import { pick, type Workload } from './workload.ts';

/** How a flaky node went down. */
export interface Outage {
  readonly node: string;
  /** As its taint says, milliseconds since the epoch. */
  readonly from: number;
  /** When the node was removed, our clock; no pod was on it any more. */
  readonly to: number;
}

/** A node that was dedicated to one tenant cluster until it broke and was removed. */
export interface NodeLife {
  readonly name: string;
  /** The id of its tenant cluster. */
  readonly owner: string;
  readonly createdAt: number;
  /** As its taint says: from here on it is down, until it is gone. */
  readonly downAt: number;
  /** When the taint was written, and when the node was gone; our clock. */
  readonly downReported: number;
  readonly removedAt: number;
}

interface ChangesOptions {
  readonly api: ApiClient;
  readonly random: () => number;
  readonly log: (line: string) => void;
}

const CAPACITY_TYPES = ['on-demand', 'spot', 'reserved'];

/** Changes labels of GPU nodes now and then: it splits their pods' time, and loses none of it. */
export async function changeLabels({ api, random }: ChangesOptions, signal: AbortSignal) {
  const nodes = GPU_MODES.flatMap(({ node, claims }) => (claims === undefined ? node : []));
  while (await passes(1_000 + 4_000 * random(), signal)) {
    const labels = { 'karpenter.sh/capacity-type': pick(CAPACITY_TYPES, random) };
    await api.patch(`/api/v1/nodes/${pick(nodes, random)}`, { metadata: { labels } });
  }
}

/** The flaky nodes, one after the other. */
export interface FlakyNodes {
  /** The one that takes pods. */
  readonly current: () => GpuMode | undefined;
  run(workload: Workload, signal: AbortSignal): Promise<readonly Outage[]>;
}

/**
 * A flaky node goes down with pods on it, and is removed when the last of them has ended: what each
 * held of it while it was down begins and ends with a time of the API.
 */
export function createFlakyNodes({ api, random }: ChangesOptions): FlakyNodes {
  let current: GpuMode | undefined;
  return {
    current: () => current,
    run: async (workload, signal) => {
      const outages: Outage[] = [];
      for (let number = 0; !signal.aborted; number += 1) {
        const mode = flakyMode(number);
        const { node } = mode;
        await addNode(api, { ...mode, name: node });
        current = mode;
        await passes(8_000 + 12_000 * random(), signal);
        current = undefined;
        // A pod whose start was not told yet would start on a node that is down.
        await delay(5_000);
        const from = await takeDown(api, node);
        await Promise.all(workload.onFlaky);
        await api.remove(`/api/v1/nodes/${node}`, 0);
        outages.push({ node, from, to: Date.now() });
      }
      return outages;
    },
  };
}

const SHORTEST_MS = 8_000;
const LONGEST_MS = 60_000;
const DOWN_MS = 3_000;

/** Nodes of a tenant cluster's own come, break and go, one after the other. */
export async function replaceNodes(
  { api, random, log }: ChangesOptions,
  cluster: SimulatedTenantCluster,
  signal: AbortSignal,
): Promise<readonly NodeLife[]> {
  const lives: NodeLife[] = [];
  for (let count = 0; !signal.aborted; count += 1) {
    const name = `accuracy-own-${count}`;
    const createdAt = await addPrivateNode(api, name, cluster);
    await passes(SHORTEST_MS + (LONGEST_MS - SHORTEST_MS) * random(), signal);
    const downAt = await takeDown(api, name);
    const downReported = Date.now();
    await delay(DOWN_MS);
    await api.remove(`/api/v1/nodes/${name}`, 0);
    lives.push({
      name,
      owner: tenantClusterId(cluster),
      createdAt,
      downAt,
      downReported,
      removedAt: Date.now(),
    });
  }
  log(`${lives.length} nodes of a tenant cluster have come and gone`);
  return lives;
}
