import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { SourceHandler } from '../kubernetes/source.ts';
import { greatest } from '../model/extremes.ts';
import { machineIds, type MachineRecord } from '../metering/timelines/machine-record.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import {
  PRIVATE_NODE_LABELS,
  type ProviderStatement,
} from '../metering/timelines/provided-node.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The parts of a tenant cluster that identify its machines. */
type Owner = Pick<TenantCluster, 'id' | 'name' | 'machineCluster'>;

/** Most nodes with another node's machine that are logged. */
const COMPLAINTS = 100;

/**
 * The host cluster's records of machines, by the ids of a machine. A record proves one node: the
 * first with its machine, of any tenant cluster, until that node is gone
 * (docs/explanation/nodes.md#records-of-machines).
 */
export class MachineRecords {
  readonly handler: SourceHandler<MachineRecord>;
  readonly #options;
  readonly #byId = new Map<string, Map<string, MachineRecord>>();
  readonly #claims = new Map<
    string,
    {
      readonly tenant: string;
      readonly uid: string;
    }
  >();
  /** Uids of the nodes that look up an id, by tenant cluster. */
  readonly #requested = new Map<string, Map<string, Set<string>>>();
  /** Ids that a node looks up, by tenant cluster and uid. */
  readonly #idsOf = new Map<string, Map<string, readonly string[]>>();
  readonly #listeners = new Set<(tenants: ReadonlySet<string>) => void>();
  readonly #complained = new Set<string>();
  readonly #changed = new Set<string>();

  constructor(options: {
    /** Returns whether the records are not known yet. Nodes are then billed as before. */
    readonly pending: () => boolean;
    /** Nodes of the host cluster. Their machines belong to no tenant cluster. */
    readonly hostNode: (name: string) => NodeView | undefined;
    readonly logger: Logger;
  }) {
    this.#options = options;
    this.handler = {
      upserted: (next, previous) => {
        if (previous !== undefined) this.#take(previous);
        for (const id of next.ids) {
          const records = this.#byId.get(id) ?? new Map<string, MachineRecord>();
          this.#byId.set(id, records.set(next.title, next));
        }
        this.#report([...next.ids, ...(previous?.ids ?? [])]);
      },
      deleted: (last) => {
        this.#take(last);
        this.#claims.delete(last.title);
        this.#report(last.ids);
      },
    };
  }

  /** See {@link MachineRecordsOptions}. */
  get pending(): boolean {
    return this.#options.pending();
  }

  /**
   * Calls the listener with the tenant clusters whose nodes are affected by a created, changed or
   * deleted record.
   */
  subscribe(listener: (tenants: ReadonlySet<string>) => void): void {
    this.#listeners.add(listener);
  }

  /** Returns the records that prove a node. They prove no other node from then on. */
  of(owner: Owner, node: NodeView): readonly MachineRecord[] {
    return this.find(owner, node).filter((record) => this.#claim(record, owner, node));
  }

  /** Returns the records of a node's machine that may belong to this tenant cluster. */
  find(owner: Owner, node: NodeView): readonly MachineRecord[] {
    const found = new Map<string, MachineRecord>();
    const own = owner.machineCluster ?? owner.name;
    const ids = machineIds(node);
    this.#query(owner, node.uid, ids);
    for (const id of ids) {
      for (const [title, record] of this.#byId.get(id) ?? []) {
        const other = record.cluster !== undefined && record.cluster !== own;
        if (!other && !this.#isHosts(record)) found.set(title, record);
      }
    }
    return [...found].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, record]) => record);
  }

  /** Restores from the journal that records of these titles proved a node. */
  restore({ id: tenant }: Pick<Owner, 'id'>, uid: string, titles: readonly string[]): void {
    for (const title of titles) this.#claims.set(title, { tenant, uid });
  }

  /** Releases the records of a node that is gone, so that they may prove another. */
  release(owner: Pick<Owner, 'id'>, uid: string): void {
    this.#query(owner, uid, []);
    for (const [title, claim] of this.#claims) {
      if (claim.tenant === owner.id && claim.uid === uid) this.#claims.delete(title);
    }
  }

  /** Releases all records of a tenant cluster that is gone. */
  forget(tenant: string): void {
    for (const [title, claim] of this.#claims) {
      if (claim.tenant === tenant) this.#claims.delete(title);
    }
    for (const uid of this.#idsOf.get(tenant)?.keys() ?? []) this.#query({ id: tenant }, uid, []);
  }

  /** Number of ids that nodes look up. */
  get requested(): number {
    return this.#requested.size;
  }

  /** Replaces the ids that a node looks up. */
  #query({ id: tenant }: Pick<Owner, 'id'>, uid: string, ids: readonly string[]): void {
    const nodes = this.#idsOf.get(tenant) ?? new Map<string, readonly string[]>();
    for (const id of nodes.get(uid) ?? []) {
      const tenants = this.#requested.get(id);
      const uids = tenants?.get(tenant);
      uids?.delete(uid);
      if (uids?.size === 0) tenants?.delete(tenant);
      if (tenants?.size === 0) this.#requested.delete(id);
    }
    if (ids.length === 0) nodes.delete(uid);
    else this.#idsOf.set(tenant, nodes.set(uid, ids));
    if (nodes.size === 0) this.#idsOf.delete(tenant);
    for (const id of ids) {
      const tenants = this.#requested.get(id) ?? new Map<string, Set<string>>();
      this.#requested.set(id, tenants.set(tenant, (tenants.get(tenant) ?? new Set()).add(uid)));
    }
  }

  #claim(record: MachineRecord, { id: tenant }: Owner, { uid, name }: NodeView): boolean {
    const claim = this.#claims.get(record.title);
    if (claim === undefined) this.#claims.set(record.title, { tenant, uid });
    if (claim === undefined || claim.uid === uid) return true;
    const key = `${record.title} ${uid}`;
    if (this.#complained.has(key) || this.#complained.size >= COMPLAINTS) return false;
    this.#complained.add(key);
    this.#options.logger.warn(
      `[metrics] tenant cluster ${tenant}: node ${name} shows the machine of ${record.title}, which proves another node: it is billed at the dearest reading`,
    );
    return false;
  }

  #isHosts({ nodeName, ids }: MachineRecord): boolean {
    const host = nodeName === undefined ? undefined : this.#options.hostNode(nodeName);
    return host !== undefined && machineIds(host).some((id) => ids.includes(id));
  }

  #take({ ids, title }: MachineRecord): void {
    for (const id of ids) {
      const records = this.#byId.get(id);
      records?.delete(title);
      if (records?.size === 0) this.#byId.delete(id);
    }
  }

  /** Notifies each tenant cluster once of the many records of a list. */
  #report(ids: readonly string[]): void {
    const before = this.#changed.size;
    for (const id of ids) {
      for (const tenant of this.#requested.get(id)?.keys() ?? []) this.#changed.add(tenant);
    }
    if (before > 0 || this.#changed.size === 0) return;
    queueMicrotask(() => {
      const tenants = new Set(this.#changed);
      this.#changed.clear();
      for (const listener of this.#listeners) listener(tenants);
    });
  }
}

/**
 * Returns the provider's information about a node: the records of its machine, with the labels of
 * the TenantOverride on top.
 */
export function providerWord(
  records: readonly MachineRecord[],
  privateNodeLabels: Readonly<Record<string, string>> | undefined,
): ProviderStatement {
  const titles = records.map(({ title }) => title);
  const sources = privateNodeLabels === undefined ? titles : [...titles, PRIVATE_NODE_LABELS];
  const labels = Object.assign({}, ...records.map((record) => record.labels), privateNodeLabels);
  if (sources.length === 0) return { labels };
  const down = records.filter((record) => record.down);
  const times = down.flatMap(({ downSince }) => downSince ?? []);
  const largest = (amounts: readonly bigint[]): bigint =>
    amounts.reduce((most, amount) => (amount > most ? amount : most), 0n);
  return {
    labels,
    source: sources.join(', '),
    record: {
      cpu: largest(records.map(({ cpu }) => cpu)),
      memory: largest(records.map(({ memory }) => memory)),
      extended: records.find(({ extended }) => extended.size > 0)?.extended ?? new Map(),
      down: down.length > 0,
      downSince: times.length === 0 ? undefined : greatest(times),
    },
  };
}
