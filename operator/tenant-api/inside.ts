import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { NodeView } from '../observation/node.ts';
import {
  createObservation,
  type Observation,
  type ObservationOptions,
} from '../observation/observation.ts';
import { tenancyOf } from '../observation/own-cluster.ts';
import type { TenantClusterTimelines } from '../observation/tenant-cluster-timeline.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { MachineRecords } from './machine-records.ts';
import { createNodeMachines, type NodeMachines } from './node-machines.ts';
import { createOwnNodes, type HostNodes, type OwnNodes } from './own-nodes.ts';
import { readView } from './reading/read-apart.ts';
import { createSyncedObjects, type HostObjects } from './synced-objects.ts';

/** How a tenant cluster is looked at, from inside. */
export interface Inside {
  readonly observation: Observation;
  readonly ownNodes: OwnNodes;
  readonly machines: NodeMachines;
}

export interface InsideOptions {
  /** Tenant clusters over time. */
  readonly tenantClusters: TenantClusterTimelines;
  /** What the host cluster has, so that nothing is billed twice. */
  readonly host: {
    readonly nodes: HostNodes;
    readonly volumes: HostObjects;
    readonly loadBalancers: HostObjects;
  };
  /** The host's own records of machines. */
  readonly machines: MachineRecords;
  /** How objects are followed, as on the host. */
  readonly observing: Pick<ObservationOptions, 'nodeSettings' | 'billedUntil' | 'countClamped'>;
  readonly logger: Logger;
}

/** A look at nothing yet, with the rules by which it is told what is the tenant cluster's own. */
export function lookInside(id: string, options: InsideOptions): Inside {
  const { host, tenantClusters, logger } = options;
  const cluster = (): TenantCluster | undefined =>
    tenantClusters.current.find((each) => each.id === id);
  const isKnown = (uid: string): boolean =>
    [...observation.nodes.inNamespace('')].some(
      (node) => node.uid === uid && node.spans.at(-1)?.state.foreign !== true,
    );
  const machines = createNodeMachines({ id, cluster, records: options.machines });
  const isProven = (node: NodeView): boolean => machines.isProven(node);
  const ownNodes = createOwnNodes({
    host: host.nodes,
    cluster,
    view: (object) => readView<NodeView>(observation)(object),
    isKnown,
    isProven,
    logger,
  });
  const isSyncedVolume = createSyncedObjects(host.volumes, cluster);
  const isSyncedLoadBalancer = createSyncedObjects(host.loadBalancers, cluster);
  const whole = createObservation({
    ...options.observing,
    foreignSince: ownNodes.foreignSince,
    providerWord: (node) => machines.word(node),
    isSynced: (object) =>
      'bound' in object ? isSyncedVolume(object) : isSyncedLoadBalancer(object),
  });
  const observation: Observation = {
    ...whole,
    // Everything is closed together here, so that one timeline of each pod and node is enough.
    pods: whole.gpuPods,
    nodes: whole.gpuNodes,
    tenantClusters: tenancyOf(tenantClusters, id),
  };
  return { observation, ownNodes, machines };
}
