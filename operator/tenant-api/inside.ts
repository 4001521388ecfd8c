import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import {
  createObservation,
  type TenantObservation,
  type ObservationOptions,
} from '../metering/timelines/observation.ts';
import { tenancyOf } from '../metering/timelines/inside-tenant.ts';
import {
  PRIVATE_NODE_LABELS,
  type ProviderStatement,
} from '../metering/timelines/provided-node.ts';
import type { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { currentState } from '../metering/timelines/timeline.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type MachineRecords, providerWord } from './machine-records.ts';
import { PrivateNodes } from './private-nodes.ts';
import { readView } from './reading/read-in-worker.ts';
import { createSyncedObjects, type HostLookup } from './synced-objects.ts';

export interface InsideOptions {
  readonly tenantClusters: TenantClusterTimelines;
  /** The host cluster's objects, so that nothing is billed twice. */
  readonly host: {
    readonly nodes: { find(namespace: string, name: string): NodeView | undefined };
    readonly volumes: HostLookup;
    readonly loadBalancers: HostLookup;
  };
  readonly machines: MachineRecords;
  /** Options of the observation, as on the host. */
  readonly observing: Pick<ObservationOptions, 'nodeSettings' | 'billedUntil' | 'countClamped'>;
  readonly logger: Logger;
}

/** An empty observation of a tenant cluster's API, with the rules for its own objects. */
export class Inside {
  readonly observation: TenantObservation;
  readonly privateNodes: PrivateNodes;
  readonly machines: NodeMachines;

  constructor(id: string, options: InsideOptions) {
    const { host, tenantClusters, logger } = options;
    const cluster = (): TenantCluster | undefined =>
      tenantClusters.current.find((each) => each.id === id);
    const machines = new NodeMachines(id, cluster, options.machines);
    this.machines = machines;
    this.privateNodes = new PrivateNodes({
      host: host.nodes,
      cluster,
      view: (object) => readView<NodeView>(this.observation)(object),
      isKnown: (uid) => this.#isKnown(uid),
      isProven: (node) => machines.isProven(node),
      logger,
    });
    const isSyncedVolume = createSyncedObjects(host.volumes, cluster);
    const isSyncedLoadBalancer = createSyncedObjects(host.loadBalancers, cluster);
    const complete = createObservation({
      ...options.observing,
      foreignSince: this.privateNodes.foreignSince,
      providerStatement: (node) => machines.word(node),
      isSynced: (object) =>
        'bound' in object ? isSyncedVolume(object) : isSyncedLoadBalancer(object),
    });
    this.observation = {
      ...complete,
      // Both close together here, so one timeline of each pod and node is enough.
      pods: complete.gpuPods,
      nodes: complete.gpuNodes,
      tenantClusters: tenancyOf(tenantClusters, id),
    };
  }

  #isKnown(uid: string): boolean {
    return [...this.observation.nodes.inNamespace('')].some(
      (node) => node.uid === uid && node.spans.at(-1)?.state.foreign !== true,
    );
  }
}

/** The provider's information about the nodes of one tenant cluster. */
export class NodeMachines {
  readonly #id: string;
  readonly #cluster: () => TenantCluster | undefined;
  readonly #records: MachineRecords;

  constructor(id: string, cluster: () => TenantCluster | undefined, records: MachineRecords) {
    this.#id = id;
    this.#cluster = cluster;
    this.#records = records;
  }

  /**
   * Returns the provider's information about a node. It is undefined where the tenant's counts, and
   * `pending` until the records are known (docs/explanation/nodes.md#whom-to-trust-about-nodes).
   */
  word(node: NodeView): ProviderStatement | 'pending' | undefined {
    const owner = this.#trusting();
    if (owner === undefined) return undefined;
    if (this.#records.pending) return 'pending';
    return providerWord(this.#records.of(owner, node), owner.metering.privateNodeLabels);
  }

  /** Returns whether a trusted record proves that the node is a machine of this tenant cluster. */
  isProven(node: NodeView): boolean {
    const owner = this.#trusting();
    return owner !== undefined && this.#records.find(owner, node).length > 0;
  }

  /** Returns whether a node gone from the API is still billed, because its machine lives. */
  lives(node: NodeView): boolean {
    const owner = this.#trusting();
    if (owner === undefined) return false;
    return this.#records.pending ? node.hidden === true : this.#records.of(owner, node).length > 0;
  }

  release(uid: string): void {
    this.#records.release({ id: this.#id }, uid);
  }

  /** Restores which records proved which nodes, from the journal. */
  restore(nodes: TenantObservation['nodes']): void {
    for (const node of nodes.inNamespace('')) {
      const titles = (currentState(node)?.provenBy ?? '').split(', ');
      const known = titles.filter((title) => title !== '' && title !== PRIVATE_NODE_LABELS);
      this.#records.restore({ id: this.#id }, node.uid, known);
    }
  }

  /** The tenant cluster, if the provider's information counts for it. */
  #trusting(): TenantCluster | undefined {
    const owner = this.#cluster();
    return owner?.metering.privateNodeTrust === 'provider' ? owner : undefined;
  }
}
