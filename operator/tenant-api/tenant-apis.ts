import type { TenantApiAccess } from './access.ts';
import pLimit from 'p-limit';
import type { Discovery } from '../discovery/discovery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { pause } from '../telemetry/abort.ts';
import type { Projected, SourceHandler, SourceHealth } from '../kubernetes/source.ts';
import type { LoadBalancerView, VolumeClaimView } from '../metering/timelines/retained-objects.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { TenantObservation } from '../metering/timelines/observation.ts';
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
  declaresPrivateNodes,
} from './tenant-api.ts';
import { TenantUnit } from './tenant-unit.ts';
import type { TenantResume } from './tenant-watches.ts';

/** A tenant cluster's API in the journal. {@link TenantApis.observe} made the observation. */
interface KnownTenantApi {
  readonly id: string;
  readonly hasPrivateNodes: boolean;
  readonly resume: TenantResume;
}

/** Most first lists under way at the same time. */
const STARTS_AT_ONCE = 32;
const REPORT_MS = 10_000;
/** Longest wait for the first lists of machine records. */
const RECORDS_MS = 15_000;
const POLL_MS = 50;

/** The APIs of tenant clusters with private nodes: their objects and their failures. */
export class TenantApis {
  /** Handlers for the host's watches. */
  readonly onHost: {
    readonly nodes: SourceHandler<NodeView>;
    readonly volumes: SourceHandler<VolumeClaimView>;
    readonly loadBalancers: SourceHandler<LoadBalancerView>;
  };
  readonly #options;
  readonly #units = new Map<string, TenantUnit>();
  readonly #insides = new Map<string, Inside>();
  /** Private nodes of each tenant cluster, as last logged. */
  readonly #counts = new Map<string, number>();
  /** Whose information counts for each tenant cluster's nodes, as last applied. */
  readonly #trusts = new Map<string, string>();
  readonly #limit = pLimit(STARTS_AT_ONCE);
  readonly #firstLists = new FirstLists();
  readonly #memory = new SharedMemory();
  #closed = false;

  constructor(
    options: InsideOptions & {
      readonly access: Pick<TenantApiAccess, 'list' | 'missing' | 'subscribe'>;
      /** TENANT_API. If it is off, everything in the journal is closed and forgotten. */
      readonly enabled: () => boolean;
      readonly discovery: Pick<Discovery, 'clusters' | 'subscribe' | 'known'>;
      readonly host: InsideOptions['host'] & { readonly nodes: { health(): SourceHealth } };
      readonly limits?: TenantLimits;
      /** Parses what the APIs send. Its creator closes it. */
      readonly reader: Pick<ForeignReader, 'of' | 'forget'>;
      readonly clock: Clock;
      readonly random: () => number;
    },
  ) {
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
   * Failures by tenant cluster. A refused or failing kubeconfig always counts. A missing one counts
   * only if the tenant cluster has private nodes, had some, or is declared to have some.
   */
  failures(): readonly FailedTenantApi[] {
    return mergeFailures(
      this.#withoutAccepted().missed.map(({ tenantCluster, reason, since }) => {
        return { tenantCluster, reason, since };
      }),
      this.list().flatMap((unit) => unit.failure() ?? []),
    );
  }

  /** Sorted ids of other tenant clusters without a kubeconfig, whose usage is not missed. */
  withoutKubeconfig(): readonly string[] {
    return this.#withoutAccepted().unneeded.map(({ tenantCluster }) => tenantCluster);
  }

  /** Tenant clusters without an accepted kubeconfig, separated by whether usage may be missed. */
  #withoutAccepted(): Record<'missed' | 'unneeded', readonly MissingKubeconfig[]> {
    const { access, discovery } = this.#options;
    const all = access.missing();
    const absent = all.some(({ kind }) => kind === 'absent');
    const clusters = absent ? discovery.clusters() : [];
    const owners = new Set(
      clusters.flatMap((each) => (declaresPrivateNodes(each) ? [each.id] : [])),
    );
    const isMissed = ({ tenantCluster: id, kind }: MissingKubeconfig): boolean =>
      kind !== 'absent' || owners.has(id) || this.#units.get(id)?.hasPrivateNodes === true;
    return {
      missed: all.filter(isMissed),
      unneeded: all.filter((each) => !isMissed(each)),
    };
  }

  /** Returns the observation of a tenant cluster; the same one for the same id. */
  observe(id: string): TenantObservation {
    return this.#inside(id).observation;
  }

  /** Restores the journal's tenant APIs. Call it before {@link run}. */
  restore(known: readonly KnownTenantApi[]): void {
    for (const each of known) {
      this.#inside(each.id).machines.restore(this.observe(each.id).nodes);
      this.#open(each.id, each);
    }
  }

  /** Stops reading a tenant cluster that is gone. */
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
      hasPrivateNodes: known?.hasPrivateNodes ?? false,
      resume: known?.resume ?? {},
      limits,
      firstLists: this.#firstLists,
      memory: this.#memory,
      limit: this.#limit,
    });
    this.#units.set(id, unit);
    return unit;
  }

  /** Passes every unit its current reachability. */
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

  /** Applies a change of whose information counts, from its moment on. */
  #reviewTrust(unit: TenantUnit, cluster: TenantCluster | undefined): void {
    if (cluster === undefined) return;
    const { privateNodeTrust, privateNodeLabels } = cluster.metering;
    const trust = JSON.stringify([privateNodeTrust, privateNodeLabels]);
    const before = this.#trusts.get(unit.id);
    this.#trusts.set(unit.id, trust);
    if (before !== undefined && before !== trust) unit.providerChanged();
  }

  /** Waits until the records are read: without them a node would count as one without a record. */
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

  /** Reachability of a tenant cluster that is not in the access's lists. */
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
      logger.info(`[metrics] tenant cluster ${unit.id}: private nodes ${before} → ${count}`);
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
