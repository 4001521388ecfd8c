import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import { type ExtendedResource, extendedOf, labelsOf, type NodeView } from './node.ts';
import {
  amountAt,
  conditionOf,
  countAt,
  identityOf,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';

/**
 * The fields of a machine's record in the host cluster that bear on billing
 * (docs/explanation/nodes.md#records-of-machines).
 */
export interface MachineRecord extends Projected {
  /** `Machine fleet/worker-0`, `NodeClaim default-x7k2p`. */
  readonly title: string;
  /** Identifiers that match a node to this machine; lower case. */
  readonly ids: readonly string[];
  /** Name of the only cluster that the node can belong to; absent where the record has none. */
  readonly cluster?: string;
  readonly nodeName?: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Nanocores and nano-bytes; 0 where the record does not say. */
  readonly cpu: bigint;
  readonly memory: bigint;
  readonly extended: ReadonlyMap<string, ExtendedResource>;
  readonly down: boolean;
  /** Since when it is down, milliseconds since the epoch; absent where the record has no time. */
  readonly downSince?: number;
}

/** Identifiers of a node in lower case: `status.nodeInfo.systemUUID` and `spec.providerID`. */
export function machineIds({ machine, providerId }: NodeView): readonly string[] {
  const ids = [machine, providerId].flatMap((id) => id?.toLowerCase() ?? []);
  // Newer versions of Metal3 write `metal3://<namespace>/<host>/<machine>`, older ones the uid of
  // the host.
  const host = /^metal3:\/\/[^/]+\/[^/]+(?=\/)/.exec(providerId?.toLowerCase() ?? '')?.[0];
  return host === undefined ? ids : [...ids, host];
}

/**
 * Reads Karpenter's record of a machine (karpenter.sh NodeClaim). Its labels have capacity type,
 * instance type and zone; it has nothing about health.
 */
export const projectNodeClaim: Projection<MachineRecord> = (object) => {
  const status = recordAt(object, 'status');
  const capacity = recordAt(status, 'capacity');
  return recordOf(object, 'NodeClaim', {
    ids: [textAt(status, 'providerID')],
    nodeName: textAt(status, 'nodeName'),
    cpu: amountAt(capacity, 'cpu'),
    memory: amountAt(capacity, 'memory'),
    extended: extendedOf(capacity, capacity),
  });
};

/**
 * Reads the record of Cluster API (cluster.x-k8s.io Machine). Of its conditions only
 * `InfrastructureReady` counts: those about the node are read from the node.
 */
export const projectMachine: Projection<MachineRecord> = (object) => {
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const infrastructure = conditionOf(status, 'InfrastructureReady') ?? {};
  const down = infrastructure['status'] === 'False';
  return recordOf(object, 'Machine', {
    ids: [textAt(spec, 'providerID'), textAt(recordAt(status, 'nodeInfo'), 'systemUUID')],
    cluster: textAt(spec, 'clusterName'),
    nodeName: textAt(recordAt(status, 'nodeRef'), 'name'),
    down,
    downSince: down ? timeAt(infrastructure, 'lastTransitionTime') : undefined,
  });
};

const NANOS = 1_000_000_000n;
const MIB = 2n ** 20n;

/** Reads Metal3's record of a server (metal3.io BareMetalHost). A powered-off server is down. */
export const projectBareMetalHost: Projection<MachineRecord> = (object) => {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const hardware = recordAt(recordAt(object, 'status'), 'hardware');
  const { uid, namespace, name } = identity;
  return recordOf(object, 'BareMetalHost', {
    ids: [`metal3://${uid}`, `metal3://${namespace}/${name}`],
    cpu: nanos(countAt(recordAt(hardware, 'cpu'), 'count')),
    memory: nanos(countAt(hardware, 'ramMebibytes')) * MIB,
    down: recordAt(object, 'spec')['online'] === false,
  });
};

function nanos(count: number): bigint {
  return BigInt(Math.max(0, Math.trunc(count))) * NANOS;
}

function recordOf(
  object: RawObject,
  kind: string,
  stated: {
    readonly ids: readonly (string | undefined)[];
    readonly cluster?: string;
    readonly nodeName?: string;
    readonly cpu?: bigint;
    readonly memory?: bigint;
    readonly extended?: ReadonlyMap<string, ExtendedResource>;
    readonly down?: boolean;
    readonly downSince?: number;
  },
): MachineRecord | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const { name, namespace } = identity;
  const { ids, cluster, nodeName, cpu = 0n, memory = 0n, extended = NONE, downSince } = stated;
  return {
    ...identity,
    title: `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`,
    ids: ids.flatMap((id) => id?.toLowerCase() ?? []),
    labels: labelsOf(recordAt(recordAt(object, 'metadata'), 'labels')),
    cpu,
    memory,
    extended,
    down: stated.down === true,
    cluster,
    nodeName,
    downSince,
  };
}

const NONE: ReadonlyMap<string, ExtendedResource> = new Map();
