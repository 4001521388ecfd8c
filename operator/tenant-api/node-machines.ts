import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Observation } from '../observation/observation.ts';
import type { NodeView } from '../observation/node.ts';
import { OWN_NODE_LABELS, type ProviderWord } from '../observation/provided-node.ts';
import { currentState } from '../observation/timeline.ts';
import { type MachineRecords, providerWord } from './machine-records.ts';

/** What the provider says of the nodes of one tenant cluster. */
export interface NodeMachines {
  /**
   * Undefined where the tenant's word counts, `pending` while the records are not known
   * (docs/metering.md#whose-word-counts).
   */
  word(node: NodeView): ProviderWord | 'pending' | undefined;
  /** Whether a record proves that it is a machine of the tenant cluster's own, and that counts. */
  isProven(node: NodeView): boolean;
  /** Whether a node that its API shows no more is billed on, because its machine lives. */
  lives(node: NodeView): boolean;
  release(uid: string): void;
  /** Takes in what the journal says that nodes were proven by. */
  restore(nodes: Observation['nodes']): void;
}

export interface NodeMachinesOptions {
  /** Of the tenant cluster. */
  readonly id: string;
  readonly cluster: () => TenantCluster | undefined;
  readonly records: MachineRecords;
}

export function createNodeMachines({ id, cluster, records }: NodeMachinesOptions): NodeMachines {
  /** The tenant cluster, where it is the provider's word that counts. */
  const trusting = (): TenantCluster | undefined => {
    const owner = cluster();
    return owner?.metering.ownNodeTrust === 'provider' ? owner : undefined;
  };
  return {
    word: (node) => {
      const owner = trusting();
      if (owner === undefined) return undefined;
      if (records.pending) return 'pending';
      return providerWord(records.of(owner, node), owner.metering.ownNodeLabels);
    },
    isProven: (node) => {
      const owner = trusting();
      return owner !== undefined && records.find(owner, node).length > 0;
    },
    lives: (node) => {
      const owner = trusting();
      if (owner === undefined) return false;
      return records.pending ? node.hidden === true : records.of(owner, node).length > 0;
    },
    release: (uid) => records.release({ id }, uid),
    restore: (nodes) => {
      for (const node of nodes.inNamespace('')) {
        const titles = (currentState(node)?.provenBy ?? '').split(', ');
        const known = titles.filter((title) => title !== '' && title !== OWN_NODE_LABELS);
        records.restore({ id }, node.uid, known);
      }
    },
  };
}
