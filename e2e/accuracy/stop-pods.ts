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
  type RunningPod,
  type Shape,
  SHAPES,
} from './pod-life.ts';
import type { StopScene } from './stops.ts';
import {
  accountOf,
  exactly,
  momentOf,
  type Moment,
  type Stretch,
  type Undated,
} from './undated.ts';
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
 * Pods that are deleted by force, resized, get labels of another namespace or another tenant cluster, or live
 * only while the operator is down.
 */
export class StopPods implements StopScene {
  readonly #options: StopPodsOptions;
  readonly #ends: PodEnd[] = [];
  readonly #running = new Set<Promise<void>>();
  #slice = 0;
  #stopped = Promise.withResolvers<void>();
  #resumed = Promise.withResolvers<void>();

  constructor(options: StopPodsOptions) {
    this.#options = options;
  }

  prepare(): Promise<void> {
    this.#resumed.resolve();
    this.#slice += 1;
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
    const [middle, small, large] = SHAPES;
    void this.#track('grown', this.#resize([small, middle], stopped, resumed));
    void this.#track('shrunk', this.#resize([large, middle], stopped, resumed));
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
      name: `stop-${this.#slice}-${name}`,
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
    const [before, after] = this.#options.neighbours;
    const name = `stop-${this.#slice}-sold`;
    const shape = pick(SHAPES, this.#options.random);
    const changed = await this.#changed(name, before, shape, stopped, resumed, ({ label }) =>
      label({ 'vcluster.loft.sh/managed-by': after.name }),
    );
    const what = 'pods that change hands';
    const [first, second] = changed;
    this.#note(what, name, before, podStretches(shape, undefined, ...first));
    this.#note(what, name, after, podStretches(shape, undefined, ...second));
  }

  /** It asks for more, or for less. */
  async #resize(
    [before, after]: readonly [Shape, Shape],
    stopped: Promise<void>,
    resumed: Promise<void>,
  ): Promise<void> {
    const { cluster } = this.#options;
    const name = `stop-${this.#slice}-from-${before.cores}-to-${after.cores}`.replaceAll('.', '-');
    const changed = await this.#changed(name, cluster, before, stopped, resumed, ({ resize }) =>
      resize(after),
    );
    const [first, second] = changed;
    this.#note('pods resized', name, cluster, [
      ...podStretches(before, undefined, ...first),
      ...podStretches(after, undefined, ...second),
    ]);
  }

  /** A pod without GPUs that changes during the stop; from when to when it was the one, and then the other. */
  async #changed(
    name: string,
    cluster: SimulatedTenantCluster,
    shape: Shape,
    stopped: Promise<void>,
    resumed: Promise<void>,
    change: (pod: RunningPod) => Promise<void>,
  ): Promise<readonly [readonly [Moment, Moment], readonly [Moment, Moment]]> {
    const { api, random } = this.#options;
    let at: Moment | undefined;
    const end = await livePod(api, {
      name,
      cluster,
      place: { node: pick(MODES, random).node },
      shape,
      waitMs: 100,
      keptMs: 500,
      ending: 'deleted',
      runs: async (pod) => {
        await stopped;
        await delay(3_000 * random());
        at = await momentOf(() => change(pod));
        await resumed;
      },
    });
    if (end.kind !== 'dated' || at === undefined) throw new Error('it was not changed');
    const { startedAt, finishedAt } = end.life;
    return [
      [exactly(startedAt), at],
      [at, exactly(finishedAt)],
    ];
  }

  #note(
    what: string,
    name: string,
    cluster: SimulatedTenantCluster,
    stretches: readonly Stretch[],
  ): void {
    const accounts = [accountOf(tenantClusterId(cluster), namespaceOf(name))];
    const undated: Undated = {
      what,
      name: `${name} of ${cluster.name}`,
      kind: 'pods',
      accounts,
      stretches,
    };
    this.#ends.push({ kind: 'undated', undated });
  }
}
