import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient } from '../simulator/api-client.ts';
import { type SimulatedTenantCluster, tenantClusterId } from '../simulator/cloud.ts';
import { type KubeObject, objectPath } from '../simulator/objects.ts';
import { boundStatus, claimObject, loadBalancerObject } from '../simulator/tenant-clusters.ts';
import { syncedMeta } from '../simulator/synced.ts';
import type { StopScene } from './stops.ts';
import { accountOf, type Moment, momentOf, type Stretch, type Undated } from './undated.ts';

const STORAGE = 'tenant_storage_gb_hours';
const SIZE = 36;
const GROWN = 72;
const BALANCERS = 'tenant_lb_hours';
const INGRESS = { loadBalancer: { ingress: [{ ip: '203.0.113.99', ipMode: 'VIP' }] } };

/** Something that is held at a rate since some moment; undefined while it costs nothing. */
interface Holding {
  readonly what: string;
  readonly name: string;
  readonly object: KubeObject;
  readonly metric: string;
  rate: number;
  since: Moment | undefined;
  readonly stretches: Stretch[];
}

/** Volumes and load balancers that come, grow or go while the operator is down. None of it has a time in the API. */
export class StopHoldings implements StopScene {
  readonly #api: ApiClient;
  readonly #cluster: SimulatedTenantCluster;
  readonly #random: () => number;
  readonly #all: Holding[] = [];
  /** Those that are still there. */
  readonly #held = new Set<Holding>();
  #slice = 0;

  constructor(api: ApiClient, cluster: SimulatedTenantCluster, random: () => number) {
    this.#api = api;
    this.#cluster = cluster;
    this.#random = random;
  }

  async prepare(): Promise<void> {
    await this.#removeAll();
    this.#slice += 1;
    await Promise.all([
      this.#addVolume('volumes removed', 'removed'),
      this.#addVolume('volumes grown', 'grown'),
      this.#addBalancer('load balancers removed', 'removed'),
      this.#addBalancer('load balancers that lose their address', 'lost'),
    ]);
  }

  async change(): Promise<void> {
    const before = [...this.#held];
    const ofWhat = (what: string): readonly Holding[] => before.filter((one) => one.what === what);
    const each = (what: string, change: (one: Holding) => Promise<void>) =>
      ofWhat(what).map((one) => this.#later().then(() => change(one)));
    await Promise.all([
      ...each('volumes removed', (one) => this.#remove(one)),
      ...each('volumes grown', (one) => this.#set(one, GROWN, boundStatus(`${GROWN}Gi`))),
      ...each('load balancers removed', (one) => this.#remove(one)),
      ...each('load balancers that lose their address', (one) =>
        this.#set(one, 0, { loadBalancer: { ingress: null } }),
      ),
      this.#later().then(() => this.#addVolume('volumes added', 'added')),
      this.#later().then(() => this.#addBalancer('load balancers added', 'added')),
    ]);
  }

  /** Removes what is left; gives what all of them came to. */
  async end(): Promise<readonly Undated[]> {
    await this.#removeAll();
    return this.#all.map(({ what, name, metric, stretches }) => ({
      what,
      name,
      kind: metric === STORAGE ? 'persistentvolumeclaims' : 'services',
      accounts: [accountOf(tenantClusterId(this.#cluster), name)],
      stretches,
    }));
  }

  #later(): Promise<void> {
    return delay(3_000 * this.#random());
  }

  /** Each in a namespace of its own, so that it can be told apart. */
  #meta(what: string): { readonly name: string; readonly meta: KubeObject['metadata'] } {
    const name = `held-${this.#slice}-${what}`;
    return { name, meta: syncedMeta(this.#cluster, name, name) };
  }

  async #addVolume(what: string, suffix: string): Promise<void> {
    const { name, meta } = this.#meta(`volume-${suffix}`);
    const { object } = await this.#api.ensure(claimObject(meta, 'standard', `${SIZE}Gi`));
    const holding = this.#add({ what, name, object, metric: STORAGE });
    await this.#set(holding, SIZE, boundStatus(`${SIZE}Gi`));
  }

  async #addBalancer(what: string, suffix: string): Promise<void> {
    const { name, meta } = this.#meta(`balancer-${suffix}`);
    const { object } = await this.#api.ensure(loadBalancerObject(meta));
    const holding = this.#add({ what, name, object, metric: BALANCERS });
    await this.#set(holding, 1, INGRESS);
  }

  #add(one: Pick<Holding, 'what' | 'name' | 'object' | 'metric'>): Holding {
    const holding: Holding = { ...one, rate: 0, since: undefined, stretches: [] };
    this.#all.push(holding);
    this.#held.add(holding);
    return holding;
  }

  async #set(one: Holding, rate: number, status: Record<string, unknown>): Promise<void> {
    const path = `${objectPath(one.object)}/status`;
    const moment = await momentOf(() => this.#api.patch(path, { status }));
    changeRate(one, rate, moment);
  }

  async #remove(one: Holding): Promise<void> {
    const path = objectPath(one.object);
    // Admission protects claims that are in use; nobody else would take that off.
    await this.#api.patch(path, { metadata: { finalizers: null } });
    const moment = await momentOf(() => this.#api.remove(path, 0));
    changeRate(one, 0, moment);
    this.#held.delete(one);
  }

  async #removeAll(): Promise<void> {
    await Promise.all([...this.#held].map((one) => this.#remove(one)));
  }
}

function changeRate(one: Holding, rate: number, at: Moment): void {
  const { metric, since } = one;
  if (since !== undefined && one.rate > 0) {
    one.stretches.push({ metric, perHour: one.rate, from: since, to: at });
  }
  one.rate = rate;
  one.since = at;
}
