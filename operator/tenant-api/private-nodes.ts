import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Projection, RawObject } from '../kubernetes/source.ts';
import { machineIds } from '../metering/timelines/machine-record.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import { recordAt, textAt } from '../kubernetes/raw-fields.ts';
import { currentState } from '../metering/timelines/timeline.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Labels that the syncer sets on invented nodes, and on copies of the host's nodes. */
const NOT_OWN = ['vcluster.loft.sh/fake-node', 'vcluster.loft.sh/managed-by'];

/** OS image of the nodes that the syncer invents. */
const INVENTED = 'Fake Kubernetes Image';

/** Most nodes of a tenant cluster that are logged. */
const COMPLAINTS = 20;

/**
 * Separates a tenant cluster's private nodes from the others in its API. A node is private if the
 * host cluster does not have it and it carries no label of the syncer
 * (docs/explanation/nodes.md#what-counts-as-a-private-node). The tenant can choose labels and
 * names, so three rules limit their effect:
 * 1. A private node stays private.
 * 2. A node with the name of a host node is private if both report different machines.
 * 3. A label that does not fit the node is logged.
 */
export class PrivateNodes {
  readonly #options;
  readonly #complained = new Set<string>();

  constructor(options: {
    readonly host: { find(namespace: string, name: string): NodeView | undefined };
    readonly cluster: () => TenantCluster | undefined;
    /** Projection of the API's nodes on arrival. */
    readonly view?: Projection<NodeView>;
    /** Returns whether a node was private before; it stays so whatever labels it gets later. */
    readonly isKnown: (uid: string) => boolean;
    /** Returns whether the provider's record of its machine proves that the node is private. */
    readonly isProven: (node: NodeView) => boolean;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /** Projects the nodes that may be private. The others are not followed. */
  readonly project: Projection<NodeView> = (object) => {
    const { view = projectNode, isKnown, isProven } = this.#options;
    const node = view(object);
    if (node === undefined) return undefined;
    const label = NOT_OWN.find((name) => textAt(node.labels, name) !== undefined);
    if (label === undefined) return node;
    if (!isKnown(node.uid) && !(isProven(node) && this.foreignSince(node) === undefined)) {
      this.#checkLabel(object, node, label);
      return undefined;
    }
    this.#complain(node.name, `was given the label ${label}: it is billed as before`);
    return node;
  };

  /** Returns since when the host cluster has a node, or undefined. */
  readonly foreignSince = (node: NodeView): number | undefined => {
    const { cluster, host, isProven } = this.#options;
    // An external tenant cluster shares no nodes with the host cluster.
    if (cluster()?.source === 'external') return undefined;
    const hosts = host.find('', node.name);
    if (hosts === undefined) return undefined;
    const { machine } = hosts;
    const differs = machine !== undefined && node.machine !== undefined && machine !== node.machine;
    if (differs) return undefined;
    const ids = machineIds(hosts);
    const isSame = machineIds(node).some((id) => ids.includes(id));
    return !isSame && isProven(node) ? undefined : hosts.createdAt;
  };

  #checkLabel(object: RawObject, node: NodeView, label: string): void {
    const { osImage } = recordAt(recordAt(object, 'status'), 'nodeInfo');
    const invented = osImage === undefined || osImage === INVENTED;
    if (invented || this.foreignSince(node) !== undefined) return;
    const why = `carries ${label}, but looks like a private node: it is not billed`;
    this.#complain(node.name, why);
  }

  #complain(name: string, message: string): void {
    if (this.#complained.has(name) || this.#complained.size >= COMPLAINTS) return;
    this.#complained.add(name);
    const { cluster, logger } = this.#options;
    logger.warn(`[metrics] tenant cluster ${cluster()?.id ?? ''}: node ${name} ${message}`);
  }
}

/** Counts the private nodes that a tenant cluster has now. */
export function privateNodesIn({ nodes }: Pick<Observation, 'nodes'>): number {
  return [...nodes.inNamespace('')].filter((node) => {
    const state = currentState(node);
    return state !== undefined && state.foreign !== true;
  }).length;
}
