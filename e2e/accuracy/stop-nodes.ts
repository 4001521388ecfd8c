import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { addPrivateNode, NODE_RATES } from './nodes.ts';
import type { StopScene } from './stops.ts';
import { accountOf, exactly, type Moment, momentOf, type Undated } from './undated.ts';

interface PrivateNode {
  readonly what: string;
  readonly name: string;
  owner: SimulatedTenantCluster;
  since: Moment;
}

/** Dedicated nodes that are removed, added or given to another tenant cluster while the operator is down. */
export class StopNodes implements StopScene {
  readonly #api: ApiClient;
  readonly #owners: readonly [SimulatedTenantCluster, SimulatedTenantCluster];
  readonly #random: () => number;
  readonly #done: Undated[] = [];
  readonly #there = new Set<PrivateNode>();
  #slice = 0;

  constructor(
    api: ApiClient,
    owners: readonly [SimulatedTenantCluster, SimulatedTenantCluster],
    random: () => number,
  ) {
    this.#api = api;
    this.#owners = owners;
    this.#random = random;
  }

  async prepare(): Promise<void> {
    await this.#removeAll();
    this.#slice += 1;
    await this.#add('nodes removed', 'removed');
    await this.#add('nodes that change hands', 'sold');
  }

  async change(): Promise<void> {
    const before = [...this.#there];
    await Promise.all([
      ...before.map(async (node) => {
        await this.#later();
        await (node.what === 'nodes removed' ? this.#remove(node) : this.#sell(node));
      }),
      this.#later().then(() => this.#add('nodes added', 'added')),
    ]);
  }

  /** Removes what is left; gives what all of them came to. */
  async end(): Promise<readonly Undated[]> {
    await this.#removeAll();
    return this.#done;
  }

  #later(): Promise<void> {
    return delay(3_000 * this.#random());
  }

  async #add(what: string, suffix: string): Promise<void> {
    const [owner] = this.#owners;
    const name = `accuracy-stop-${this.#slice}-${suffix}`;
    const since = exactly(await addPrivateNode(this.#api, name, owner));
    this.#there.add({ what, name, owner, since });
  }

  async #sell(node: PrivateNode): Promise<void> {
    const [, buyer] = this.#owners;
    const labels = { 'vcluster.loft.sh/managed-by': buyer.namespace };
    const path = `/api/v1/nodes/${node.name}`;
    const sold = await momentOf(() => this.#api.patch(path, { metadata: { labels } }));
    this.#note(node, sold);
    node.owner = buyer;
    node.since = sold;
  }

  async #remove(node: PrivateNode): Promise<void> {
    const gone = await momentOf(() => this.#api.remove(`/api/v1/nodes/${node.name}`, 0));
    this.#there.delete(node);
    this.#note(node, gone);
  }

  async #removeAll(): Promise<void> {
    await Promise.all([...this.#there].map((node) => this.#remove(node)));
  }

  #note({ what, name, owner, since: from }: PrivateNode, to: Moment): void {
    const stretches = NODE_RATES.map(({ metric, rate }) => ({ metric, perHour: rate, from, to }));
    const accounts = [accountOf(tenantClusterId(owner), name)];
    this.#done.push({ what, name: `${name} of ${owner.name}`, kind: 'nodes', accounts, stretches });
  }
}
