import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Projection, RawObject } from '../kubernetes/source.ts';
import { machineIds } from '../metering/timelines/machine-record.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import { recordAt, textAt } from '../kubernetes/raw-fields.ts';
import { currentState } from '../metering/timelines/timeline.ts';
import type { Logger } from '../telemetry/logger.ts';

interface PrivateNodesOptions {
  /** Nodes of the host cluster. */
  readonly host: { find(namespace: string, name: string): NodeView | undefined };
  readonly cluster: () => TenantCluster | undefined;
  /** Of the API's nodes, as they come. */
  readonly view?: Projection<NodeView>;
  /** A node that was its own before: whatever labels it is given later, it stays that. */
  readonly isKnown: (uid: string) => boolean;
  /** Whether the provider's record of its machine proves that it is its own. */
  readonly isProven: (node: NodeView) => boolean;
  readonly logger: Logger;
}

/** Set by the syncer on nodes that it invents, and on those that it copies from the host. */
const NOT_OWN = ['vcluster.loft.sh/fake-node', 'vcluster.loft.sh/managed-by'];

/** The image that the syncer gives the nodes that it invents. */
const INVENTED = 'Fake Kubernetes Image';

/** Of each tenant cluster so many nodes are complained about. */
const COMPLAINTS = 20;

/**
 * Tells a tenant cluster's own nodes from those that its API only shows. Own are the nodes that the host cluster does not have and that carry no label of the syncer's
 * (docs/explanation/nodes.md#what-counts-as-a-private-node). Those labels, and the name, are the tenant's to choose: a node that
 * was its own stays its own, a node with the name of one of the host's is its own where both say that
 * they are different machines, and a label that does not fit the node is logged.
 */
export class PrivateNodes {
  readonly #options: PrivateNodesOptions;
  readonly #complained = new Set<string>();

  constructor(options: PrivateNodesOptions) {
    this.#options = options;
  }

  /** Nodes that may be its own; the others are not followed at all. */
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

  /** Since when the host cluster has a node, or undefined. */
  readonly foreignSince = (node: NodeView): number | undefined => {
    const { cluster, host, isProven } = this.#options;
    // An external tenant cluster shares no nodes with this one.
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
    const why = `carries ${label}, but looks like a node of its own: it is not billed`;
    this.#complain(node.name, why);
  }

  #complain(name: string, message: string): void {
    if (this.#complained.has(name) || this.#complained.size >= COMPLAINTS) return;
    this.#complained.add(name);
    const { cluster, logger } = this.#options;
    logger.warn(`[metrics] tenant cluster ${cluster()?.id ?? ''}: node ${name} ${message}`);
  }
}

/** How many nodes of its own a tenant cluster has now. */
export function privateNodesIn({ nodes }: Pick<Observation, 'nodes'>): number {
  return [...nodes.inNamespace('')].filter((node) => {
    const state = currentState(node);
    return state !== undefined && state.foreign !== true;
  }).length;
}
