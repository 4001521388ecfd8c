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

interface MachineRecordsOptions {
  /** Nothing is known of the records yet: what was billed until now goes on. */
  readonly pending: () => boolean;
  /** Nodes of the host cluster: their machines are nobody's own. */
  readonly hostNode: (name: string) => NodeView | undefined;
  readonly logger: Logger;
}

/** What there is besides what a TenantOverride says. */
type Owner = Pick<TenantCluster, 'id' | 'name' | 'machineCluster'>;

/** So many nodes that show the machine of another are complained about. */
const COMPLAINTS = 100;

/**
 * The host cluster's own records of machines, by what identifies a machine. A record proves one node:
 * the first that shows its machine, of whichever tenant cluster, until that node is gone
 * (docs/explanation/nodes.md#records-of-machines).
 */
export class MachineRecords {
  readonly handler: SourceHandler<MachineRecord>;
  readonly #options: MachineRecordsOptions;
  readonly #byId = new Map<string, Map<string, MachineRecord>>();
  readonly #claims = new Map<
    string,
    {
      readonly tenant: string;
      readonly uid: string;
    }
  >();
  /** Which nodes were looked up by an id: their uids by tenant cluster. */
  readonly #requested = new Map<string, Map<string, Set<string>>>();
  /** By which ids a node was looked up, by tenant cluster and uid. */
  readonly #idsOf = new Map<string, Map<string, readonly string[]>>();
  readonly #listeners = new Set<(tenants: ReadonlySet<string>) => void>();
  readonly #complained = new Set<string>();
  readonly #changed = new Set<string>();

  constructor(options: MachineRecordsOptions) {
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

  /** Is told of tenant clusters for whose nodes a record has come, changed or gone. */
  subscribe(listener: (tenants: ReadonlySet<string>) => void): void {
    this.#listeners.add(listener);
  }

  /** The records that prove a node, which proves no other from then on. */
  of(owner: Owner, node: NodeView): readonly MachineRecord[] {
    return this.find(owner, node).filter((record) => this.#claim(record, owner, node));
  }

  /** The records of a node's machine, as far as it could be that of a node of this tenant cluster. */
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

  /** The journal says that a node was proven by records of these titles. */
  restore({ id: tenant }: Pick<Owner, 'id'>, uid: string, titles: readonly string[]): void {
    for (const title of titles) this.#claims.set(title, { tenant, uid });
  }

  /** A node is gone: what proved it may prove another. */
  release(owner: Pick<Owner, 'id'>, uid: string): void {
    this.#query(owner, uid, []);
    for (const [title, claim] of this.#claims) {
      if (claim.tenant === owner.id && claim.uid === uid) this.#claims.delete(title);
    }
  }

  /** A tenant cluster is gone. */
  forget(tenant: string): void {
    for (const [title, claim] of this.#claims) {
      if (claim.tenant === tenant) this.#claims.delete(title);
    }
    for (const uid of this.#idsOf.get(tenant)?.keys() ?? []) this.#query({ id: tenant }, uid, []);
  }

  /** Of how many ids it would tell somebody that a record has come. */
  get requested(): number {
    return this.#requested.size;
  }

  /** The ids by which a node is looked up from now on, in the place of those until now. */
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

  /** A list brings many records at once; each tenant cluster is told once. */
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
 * What the provider says of a node: the records of its machine, and over their labels those of the
 * TenantOverride.
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
