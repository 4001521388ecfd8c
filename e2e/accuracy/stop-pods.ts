import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { GPU_MODES } from './modes.ts';
import {
  livePod,
  namespaceOf,
  type PodEnd,
  type PodPlan,
  podStretches,
  SHAPES,
} from './pod-life.ts';
import type { StopScene } from './stops.ts';
import { accountOf, exactly, momentOf, type Moment, type Undated } from './undated.ts';
import { pick } from './workload.ts';

export interface StopPodsOptions {
  readonly api: ApiClient;
  readonly random: () => number;
  readonly cluster: SimulatedTenantCluster;
  /** Two in one namespace, one of which gets a pod of the other. */
  readonly neighbours: readonly [SimulatedTenantCluster, SimulatedTenantCluster];
  readonly log: (line: string) => void;
}

/** Where devices are counted only, so that there is room for any number of pods. */
const MODES = GPU_MODES.filter(({ slots }) => slots === undefined);

/**
 * Pods that are deleted by force, get labels of another namespace or another tenant cluster, or live
 * only while the operator is down.
 */
export class StopPods implements StopScene {
  readonly #options: StopPodsOptions;
  readonly #ends: PodEnd[] = [];
  readonly #running = new Set<Promise<void>>();
  #turn = 0;
  #stopped = Promise.withResolvers<void>();
  #resumed = Promise.withResolvers<void>();

  constructor(options: StopPodsOptions) {
    this.#options = options;
  }

  prepare(): Promise<void> {
    this.#resumed.resolve();
    this.#turn += 1;
    this.#stopped = Promise.withResolvers();
    this.#resumed = Promise.withResolvers();
    const [stopped, resumed] = [this.#stopped.promise, this.#resumed.promise];
    const { random } = this.#options;
    for (const number of [1, 2, 3]) {
      const within = 3_000 * random();
      void this.#live(`killed-${number}`, {
        ending: 'forced',
        runs: () => stopped.then(() => delay(within)),
      });
    }
    void this.#live('moved', {
      ending: 'deleted',
      runs: async ({ relabel }) => {
        await stopped;
        await delay(1_500);
        await relabel();
        await resumed;
      },
    });
    void this.#track('sold', this.#sell(stopped, resumed));
    // They have begun before anything is stopped.
    return delay(2_000);
  }

  async change(): Promise<void> {
    this.#stopped.resolve();
    const { random } = this.#options;
    await Promise.all([
      this.#live('brief', { ending: 'deleted', runs: () => delay(1_000 + 2_000 * random()) }),
      this.#live('brief-killed', { ending: 'forced', runs: () => delay(1_000 + 2_000 * random()) }),
      delay(4_000),
    ]);
  }

  /** Waits until all have ended. */
  async end(): Promise<readonly PodEnd[]> {
    this.#stopped.resolve();
    this.#resumed.resolve();
    await Promise.all(this.#running);
    return this.#ends;
  }

  #live(name: string, how: Pick<PodPlan, 'ending' | 'runs'>): Promise<void> {
    const { api, random, cluster } = this.#options;
    const mode = pick(MODES, random);
    const plan = {
      name: `stop-${this.#turn}-${name}`,
      cluster,
      place: { node: mode.node, mode },
      shape: pick(SHAPES, random),
      waitMs: 100,
      keptMs: 500,
      ...how,
    };
    return this.#track(
      plan.name,
      livePod(api, plan).then((end) => void this.#ends.push(end)),
    );
  }

  #track(name: string, done: Promise<void>): Promise<void> {
    const settled = done
      .catch((error: unknown) => this.#options.log(`stops: pod ${name}: ${String(error)}`))
      .finally(() => this.#running.delete(settled));
    this.#running.add(settled);
    return settled;
  }

  /** Its label names the neighbour from some moment of the stop on. */
  async #sell(stopped: Promise<void>, resumed: Promise<void>): Promise<void> {
    const { api, random, neighbours } = this.#options;
    const [before, after] = neighbours;
    const name = `stop-${this.#turn}-sold`;
    let sold: Moment | undefined;
    const end = await livePod(api, {
      name,
      cluster: before,
      place: { node: pick(MODES, random).node },
      shape: pick(SHAPES, random),
      waitMs: 100,
      keptMs: 500,
      ending: 'deleted',
      runs: async ({ label }) => {
        await stopped;
        await delay(3_000 * random());
        sold = await momentOf(() => label({ 'vcluster.loft.sh/managed-by': after.name }));
        await resumed;
      },
    });
    if (end.kind !== 'dated' || sold === undefined) return;
    const { shape, startedAt, finishedAt } = end.life;
    const parts = [
      { cluster: before, from: exactly(startedAt), to: sold },
      { cluster: after, from: sold, to: exactly(finishedAt) },
    ];
    for (const { cluster, from, to } of parts) {
      const undated: Undated = {
        what: 'pods that change hands',
        name: `${name} of ${cluster.name}`,
        kind: 'pods',
        accounts: [accountOf(tenantClusterId(cluster), namespaceOf(name))],
        stretches: podStretches(shape, undefined, from, to),
      };
      this.#ends.push({ kind: 'undated', undated });
    }
  }
}
