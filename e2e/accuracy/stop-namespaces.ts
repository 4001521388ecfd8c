import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { GPU_MODES } from './modes.ts';
import { livePod, namespaceOf, type PodPlan, podStretches, SHAPES } from './pod-life.ts';
import type { StopScene } from './stops.ts';
import { accountOf, exactly, type Moment, momentOf, type Undated } from './undated.ts';
import { pick } from './workload.ts';

export interface StopNamespacesOptions {
  readonly api: ApiClient;
  readonly random: () => number;
  /** The first sells what the second buys. */
  readonly owners: readonly [SimulatedTenantCluster, SimulatedTenantCluster];
  readonly log: (line: string) => void;
}

/** Whose a namespace is while the operator goes down, and afterwards. */
interface Change {
  readonly what: string;
  readonly before?: SimulatedTenantCluster;
  readonly after?: SimulatedTenantCluster;
}

/**
 * Namespaces that syncers map, that they map no more, that change hands, or that come and go with what is in
 * them while the operator is down; each has one pod, which is there before and after.
 */
export class StopNamespaces implements StopScene {
  readonly #options: StopNamespacesOptions;
  readonly #done: Undated[] = [];
  readonly #running = new Set<Promise<void>>();
  #slice = 0;
  #stopped = Promise.withResolvers<void>();
  #resumed = Promise.withResolvers<void>();

  constructor(options: StopNamespacesOptions) {
    this.#options = options;
  }

  prepare(): Promise<void> {
    this.#resumed.resolve();
    this.#slice += 1;
    this.#stopped = Promise.withResolvers();
    this.#resumed = Promise.withResolvers();
    const [first, second] = this.#options.owners;
    this.#start('lost', { what: 'namespaces that are mapped no more', before: first });
    this.#start('sold', { what: 'namespaces that change hands', before: first, after: second });
    this.#start('mapped', { what: 'namespaces that are mapped', after: second });
    this.#track('removed', this.#remove(`namespace-${this.#slice}-removed`, this.#stopped.promise));
    // They have begun before anything is stopped.
    return delay(2_000);
  }

  async change(): Promise<void> {
    this.#stopped.resolve();
    this.#track('added', this.#add(`namespace-${this.#slice}-added`, this.#resumed.promise));
    await delay(4_000);
  }

  /** Waits until all have ended; gives what they came to. */
  async end(): Promise<readonly Undated[]> {
    this.#stopped.resolve();
    this.#resumed.resolve();
    await Promise.all(this.#running);
    return this.#done;
  }

  #start(suffix: string, change: Change): void {
    const name = `namespace-${this.#slice}-${suffix}`;
    this.#track(suffix, this.#change(name, change, this.#stopped.promise, this.#resumed.promise));
  }

  /** It is the one's, and from some moment of the stop on the other's. */
  async #change(
    name: string,
    { what, before, after }: Change,
    stopped: Promise<void>,
    resumed: Promise<void>,
  ): Promise<void> {
    const { api, random } = this.#options;
    await this.#create(name, before);
    let at: Moment | undefined;
    const life = await this.#live(name, async () => {
      await stopped;
      await delay(3_000 * random());
      const labels = after === undefined ? NO_LABELS : labelsOf(after);
      at = await momentOf(() => api.patch(pathOf(name), { metadata: { labels } }));
      await resumed;
    });
    if (at === undefined) return;
    if (before !== undefined) this.#note(what, name, before, [exactly(life.startedAt), at]);
    if (after !== undefined) this.#note(what, name, after, [at, exactly(life.finishedAt)]);
  }

  /** Created in the stop, with its pod. */
  async #add(name: string, resumed: Promise<void>): Promise<void> {
    const [owner] = this.#options.owners;
    await delay(2_000 * this.#options.random());
    await this.#create(name, owner);
    const { startedAt, finishedAt } = await this.#live(name, () => resumed);
    const life = [exactly(startedAt), exactly(finishedAt)] as const;
    this.#note('namespaces added', name, owner, life, true);
  }

  /** Deleted in the stop, once its pod has ended. */
  async #remove(name: string, stopped: Promise<void>): Promise<void> {
    const { api, random } = this.#options;
    const [owner] = this.#options.owners;
    await this.#create(name, owner);
    const { startedAt, finishedAt } = await this.#live(name, async () => {
      await stopped;
      await delay(1_500 + 1_500 * random());
    });
    await api.remove(pathOf(name), 0);
    // There is no namespace controller.
    await api.replace(`${pathOf(name)}/finalize`, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
      spec: { finalizers: [] },
    });
    const life = [exactly(startedAt), exactly(finishedAt)] as const;
    this.#note('namespaces removed', name, owner, life, true);
  }

  async #create(name: string, owner: SimulatedTenantCluster | undefined): Promise<void> {
    const metadata = { name, ...(owner && { labels: labelsOf(owner) }) };
    await this.#options.api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata });
    // Containers are dated by whole seconds, and must not seem older than their namespace.
    await delay(1_000);
  }

  async #live(name: string, runs: PodPlan['runs']) {
    const { api, random, owners } = this.#options;
    const end = await livePod(api, {
      name,
      cluster: owners[0],
      mapped: name,
      place: { node: pick(GPU_MODES, random).node },
      shape: SHAPES[0],
      waitMs: 100,
      keptMs: 500,
      ending: 'deleted',
      runs,
    });
    if (end.kind !== 'dated') throw new Error('its end has no date');
    return end.life;
  }

  #track(suffix: string, done: Promise<void>): void {
    const settled = done
      .catch((error: unknown) => this.#options.log(`stops: namespace ${suffix}: ${String(error)}`))
      .finally(() => this.#running.delete(settled));
    this.#running.add(settled);
  }

  #note(
    what: string,
    name: string,
    owner: SimulatedTenantCluster,
    [from, to]: readonly [Moment, Moment],
    dated?: true,
  ): void {
    const stretches = podStretches(SHAPES[0], undefined, from, to);
    const accounts = [accountOf(tenantClusterId(owner), namespaceOf(name))];
    const one: Undated = {
      what,
      name: `${name} of ${owner.name}`,
      kind: 'namespaces',
      accounts,
      stretches,
    };
    this.#done.push(dated === undefined ? one : { ...one, dated });
  }
}

function pathOf(namespace: string): string {
  return `/api/v1/namespaces/${namespace}`;
}

const NAME_LABEL = 'vcluster.loft.sh/vcluster-name';
const NAMESPACE_LABEL = 'vcluster.loft.sh/vcluster-namespace';

/** As a syncer writes them. */
function labelsOf({ name, namespace }: SimulatedTenantCluster) {
  return { [NAME_LABEL]: name, [NAMESPACE_LABEL]: namespace };
}

/** Of a patch that takes them off. */
const NO_LABELS = { [NAME_LABEL]: null, [NAMESPACE_LABEL]: null };
