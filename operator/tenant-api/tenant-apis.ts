import type { TenantApiAccess } from './access.ts';
import pLimit from 'p-limit';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { pause } from '../kubernetes/abort.ts';
import type { Projected, SourceHandler, SourceHealth } from '../kubernetes/source.ts';
import type { LoadBalancerView, VolumeClaimView } from '../metering/timelines/retained-objects.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import type { ObjectLabels } from '../metering/timelines/object-labels.ts';
import type { Clock } from '../telemetry/clock.ts';
import { DEFAULT_LIMITS, FirstLists, type TenantLimits } from './limits.ts';
import { Inside, type InsideOptions } from './inside.ts';
import { SharedMemory } from './memory.ts';
import type { ForeignReader } from './reading/foreign-reader.ts';
import { syncedBy } from './synced-objects.ts';
import {
  type FailedTenantApi,
  isMissed,
  mergeFailures,
  type MissingKubeconfig,
  type Reachability,
  saysPrivateNodes,
} from './tenant-api.ts';
import { TenantUnit } from './tenant-unit.ts';
import type { TenantResume } from './tenant-watches.ts';

interface TenantApisOptions extends InsideOptions {
  readonly access: Pick<TenantApiAccess, 'list' | 'missing' | 'subscribe'>;
  /** TENANT_API; without it what the journal knows is closed and forgotten. */
  readonly enabled: () => boolean;
  readonly discovery: Pick<Discovery, 'clusters' | 'subscribe' | 'known'>;
  readonly host: InsideOptions['host'] & { readonly nodes: { health(): SourceHealth } };
  readonly limits?: TenantLimits;
  /** Reads what the APIs send; closed by whoever made it. */
  readonly reader: Pick<ForeignReader, 'of' | 'forget'>;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What the journal knew of a tenant cluster's API; the observation is one that {@link TenantApis.observe} made. */
interface KnownTenantApi {
  readonly id: string;
  readonly hasOwnNodes: boolean;
  readonly resume: TenantResume;
}

/** First lists under way at the same time. */
const STARTS_AT_ONCE = 32;
const REPORT_MS = 10_000;
/** So long the first lists of the records of machines are waited for. */
const RECORDS_MS = 15_000;
const POLL_MS = 50;

/** The APIs of tenant clusters with nodes of their own: what they show, and which fail. */
export class TenantApis {
  /** Handlers for the host's watches. */
  readonly onHost: {
    readonly nodes: SourceHandler<NodeView>;
    readonly volumes: SourceHandler<VolumeClaimView>;
    readonly loadBalancers: SourceHandler<LoadBalancerView>;
  };
  readonly #options: TenantApisOptions;
  readonly #units = new Map<string, TenantUnit>();
  readonly #insides = new Map<string, Inside>();
  /** Own nodes of each tenant cluster, as last logged. */
  readonly #counts = new Map<string, number>();
  /** Whose word counted of each tenant cluster's nodes, as last taken in. */
  readonly #trusts = new Map<string, string>();
  readonly #limit = pLimit(STARTS_AT_ONCE);
  readonly #firstLists = new FirstLists();
  readonly #memory = new SharedMemory();
  #closed = false;

  constructor(options: TenantApisOptions) {
    this.#options = options;
    this.onHost = {
      nodes: {
        upserted: ({ name, machine }, previous) => {
          if (previous !== undefined && previous.machine === machine) return;
          this.#hostNodeChanged(name);
        },
        deleted: ({ name }) => this.#hostNodeChanged(name),
      },
      volumes: onNew((object) => this.#unitOf(object)?.refresh('volumes')),
      loadBalancers: onNew((object) => this.#unitOf(object)?.refresh('loadBalancers')),
    };
  }

  list(): readonly TenantUnit[] {
    return [...this.#units.values()];
  }

  /**
   * By tenant cluster: with a kubeconfig that is refused or does not work; without one only where the tenant cluster
   * has nodes of its own, had some, or says so.
   */
  failures(): readonly FailedTenantApi[] {
    return mergeFailures(
      this.#withoutAccepted().missed.map(({ tenantCluster, reason, since }) => {
        return { tenantCluster, reason, since };
      }),
      this.list().flatMap((unit) => unit.failure() ?? []),
    );
  }

  /** Ids of the others that nobody gave a kubeconfig, in order: nothing is known to be missed there. */
  withoutKubeconfig(): readonly string[] {
    return this.#withoutAccepted().unneeded.map(({ tenantCluster }) => tenantCluster);
  }

  /** Those without an accepted kubeconfig: where that is a failure, and where nobody is known to need one. */
  #withoutAccepted(): Record<'missed' | 'unneeded', readonly MissingKubeconfig[]> {
    const { access, discovery } = this.#options;
    const all = access.missing();
    const absent = all.some(({ kind }) => kind === 'absent');
    const clusters = absent ? discovery.clusters() : [];
    const owners = new Set(clusters.flatMap((each) => (saysPrivateNodes(each) ? [each.id] : [])));
    const isMissed = ({ tenantCluster: id, kind }: MissingKubeconfig): boolean =>
      kind !== 'absent' || owners.has(id) || this.#units.get(id)?.hasOwnNodes === true;
    return {
      missed: all.filter(isMissed),
      unneeded: all.filter((each) => !isMissed(each)),
    };
  }

  /** An observation for the objects of a tenant cluster; the same one for the same id. */
  observe(id: string): Observation {
    return this.#inside(id).observation;
  }

  /** Before {@link run}. */
  restore(known: readonly KnownTenantApi[]): void {
    for (const each of known) {
      this.#inside(each.id).machines.restore(this.observe(each.id).nodes);
      this.#open(each.id, each);
    }
  }

  /** Nothing more is asked of a tenant cluster that is gone. */
  release(id: string): void {
    const unit = this.#units.get(id);
    this.#units.delete(id);
    this.#insides.delete(id);
    this.#counts.delete(id);
    this.#trusts.delete(id);
    this.#options.machines.forget(id);
    this.#options.reader.forget(id);
    void unit?.close().then(() => this.#review());
  }

  /** Watches until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { access, discovery, clock } = this.#options;
    const review = (): void => this.#review();
    await this.#recordsKnown(signal);
    this.#options.machines.subscribe((tenants) => this.#recordsChanged(tenants));
    for (const unit of this.#units.values()) unit.providerChanged();
    const ends = [access.subscribe(review), discovery.subscribe(review)];
    review();
    while (await pause(clock, REPORT_MS, signal)) {
      this.#reportCounts();
      review();
    }
    this.#closed = true;
    for (const end of ends) end();
    await Promise.all(this.list().map((unit) => unit.close()));
  }

  #inside(id: string): Inside {
    const known = this.#insides.get(id);
    if (known !== undefined) return known;
    const made = new Inside(id, this.#options);
    this.#insides.set(id, made);
    return made;
  }

  #open(id: string, known?: KnownTenantApi): TenantUnit {
    const { host, limits = DEFAULT_LIMITS } = this.#options;
    const { observation, privateNodes, machines } = this.#inside(id);
    const unit = new TenantUnit({
      ...this.#options,
      id,
      observation,
      privateNodes,
      machines,
      hostNodes: {
        resource: { plural: 'nodes of this cluster' },
        health: () => host.nodes.health(),
      },
      hasPrivateNodes: known?.hasOwnNodes ?? false,
      resume: known?.resume ?? {},
      limits,
      firstLists: this.#firstLists,
      memory: this.#memory,
      limit: this.#limit,
    });
    this.#units.set(id, unit);
    return unit;
  }

  /** Gives every unit what is known of whether its API can be reached. */
  #review(): void {
    if (this.#closed) return;
    const { access, discovery } = this.#options;
    const known = new Map<string, Reachability>();
    const clusters = new Map(discovery.clusters().map((cluster) => [cluster.id, cluster]));
    for (const unit of this.#units.values()) this.#reviewTrust(unit, clusters.get(unit.id));
    for (const { cluster, connection } of access.list()) {
      known.set(cluster.id, { kind: 'reachable', cluster, connection });
    }
    for (const { tenantCluster, reason } of access.missing()) {
      const cluster = clusters.get(tenantCluster);
      if (cluster !== undefined) known.set(tenantCluster, { kind: 'unreachable', cluster, reason });
    }
    for (const [id, reachability] of known) {
      const unit = this.#units.get(id);
      if (unit !== undefined) unit.take(reachability);
      else if (isMissed(reachability)) this.#open(id).take(reachability);
    }
    for (const [id, unit] of this.#units) {
      if (known.has(id)) continue;
      const reachability = this.#withoutAccess(clusters.get(id));
      if (reachability !== undefined) unit.take(reachability);
    }
  }

  /** A change of whose word counts holds from its moment on. */
  #reviewTrust(unit: TenantUnit, cluster: TenantCluster | undefined): void {
    if (cluster === undefined) return;
    const { ownNodeTrust: privateNodeTrust, ownNodeLabels: privateNodeLabels } = cluster.metering;
    const trust = JSON.stringify([privateNodeTrust, privateNodeLabels]);
    const before = this.#trusts.get(unit.id);
    this.#trusts.set(unit.id, trust);
    if (before !== undefined && before !== trust) unit.providerChanged();
  }

  /** A node must not be taken for one without a record because nobody has read the records yet. */
  async #recordsKnown(signal: AbortSignal): Promise<void> {
    const { machines, clock } = this.#options;
    for (let waited = 0; machines.pending && waited < RECORDS_MS; waited += POLL_MS) {
      if (!(await pause(clock, POLL_MS, signal))) return;
    }
  }

  #recordsChanged(tenants: ReadonlySet<string>): void {
    if (this.#closed) return;
    for (const id of tenants) this.#units.get(id)?.providerChanged();
  }

  /** Of a tenant cluster that is not in the access's lists. */
  #withoutAccess(cluster: TenantCluster | undefined): Reachability | undefined {
    if (!this.#options.enabled()) return { kind: 'gone' };
    if (!this.#options.discovery.known()) return undefined;
    if (cluster === undefined || cluster.excluded) return { kind: 'gone' };
    if (cluster.nodeMode === 'shared') return { kind: 'gone' };
    return { kind: 'unreachable', cluster, reason: 'its kubeconfig is not read yet' };
  }

  #reportCounts(): void {
    for (const unit of this.#units.values()) {
      const count = unit.privateNodeCount();
      const before = this.#counts.get(unit.id) ?? 0;
      if (count === before || !unit.listed) continue;
      this.#counts.set(unit.id, count);
      const { logger } = this.#options;
      logger.info(`[metrics] tenant cluster ${unit.id}: own nodes ${before} → ${count}`);
    }
  }

  #hostNodeChanged(name: string): void {
    for (const unit of this.#units.values()) unit.hostNodeChanged(name);
  }

  #unitOf(object: Projected & { readonly labels: ObjectLabels }): TenantUnit | undefined {
    if (this.#units.size === 0) return undefined;
    const owner = syncedBy(object, this.#options.tenantClusters.current);
    return owner === undefined ? undefined : this.#units.get(owner.id);
  }
}

function onNew<T extends Projected & { readonly labels: ObjectLabels }>(
  report: (object: T) => void,
): SourceHandler<T> {
  return {
    upserted: (next, previous) => {
      if (previous === undefined) report(next);
    },
    deleted: () => undefined,
  };
}
