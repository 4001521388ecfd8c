import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import { type ExtendedResource, extendedOf, labelsOf, type NodeView } from './node.ts';
import {
  amountAt,
  conditionOf,
  countAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';

/**
 * What the host cluster's own record of a machine says that bears on billing
 * (docs/explanation/nodes.md#records-of-machines).
 */
export interface MachineRecord extends Projected {
  /** `Machine fleet/worker-0`, `NodeClaim default-x7k2p`. */
  readonly title: string;
  /** By which a node is known to be this machine; in lower case. */
  readonly ids: readonly string[];
  /** The name of the only cluster whose node it can be, where the record says. */
  readonly cluster?: string;
  /** The name of its node. */
  readonly nodeName?: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Nanocores and nano-bytes; 0 where the record does not say. */
  readonly cpu: bigint;
  readonly memory: bigint;
  readonly extended: ReadonlyMap<string, ExtendedResource>;
  readonly down: boolean;
  /** Since when, milliseconds since the epoch, where the record says. */
  readonly downSince?: number;
}

/** What a node says that it is: `status.nodeInfo.systemUUID`, `spec.providerID`; in lower case. */
export function machineIds({ machine, providerId }: NodeView): readonly string[] {
  const ids = [machine, providerId].flatMap((id) => id?.toLowerCase() ?? []);
  // Newer versions of Metal3 say `metal3://<namespace>/<host>/<machine>`, older ones the host's uid.
  const host = /^metal3:\/\/[^/]+\/[^/]+(?=\/)/.exec(providerId?.toLowerCase() ?? '')?.[0];
  return host === undefined ? ids : [...ids, host];
}

/**
 * Karpenter's record of a machine that it has bought (karpenter.sh NodeClaim): its labels say kind of
 * capacity, type and place. It says nothing of health.
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
 * The record of Cluster API (cluster.x-k8s.io Machine). Of its conditions only that of the machine
 * underneath counts: what it says of the node is read off the node.
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

/** Metal3's record of a server (metal3.io BareMetalHost); one that is switched off is down. */
export const projectBareMetalHost: Projection<MachineRecord> = (object) => {
  const metadata = recordAt(object, 'metadata');
  const hardware = recordAt(recordAt(object, 'status'), 'hardware');
  const { uid, namespace, name } = {
    uid: textAt(metadata, 'uid'),
    namespace: textAt(metadata, 'namespace'),
    name: textAt(metadata, 'name'),
  };
  return recordOf(object, 'BareMetalHost', {
    ids: [`metal3://${uid ?? ''}`, `metal3://${namespace ?? ''}/${name ?? ''}`],
    cpu: nanos(countAt(recordAt(hardware, 'cpu'), 'count')),
    memory: nanos(countAt(hardware, 'ramMebibytes')) * MIB,
    down: recordAt(object, 'spec')['online'] === false,
  });
};

function nanos(count: number): bigint {
  return BigInt(Math.max(0, Math.trunc(count))) * NANOS;
}

interface Stated {
  readonly ids: readonly (string | undefined)[];
  readonly cluster?: string | undefined;
  readonly nodeName?: string | undefined;
  readonly cpu?: bigint | undefined;
  readonly memory?: bigint | undefined;
  readonly extended?: ReadonlyMap<string, ExtendedResource>;
  readonly down?: boolean;
  readonly downSince?: number | undefined;
}

function recordOf(object: RawObject, kind: string, stated: Stated): MachineRecord | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const namespace = textAt(metadata, 'namespace') ?? '';
  const { ids, cluster, nodeName, cpu = 0n, memory = 0n, extended = NONE, downSince } = stated;
  return {
    uid,
    name,
    namespace,
    title: `${kind} ${namespace === '' ? '' : `${namespace}/`}${name}`,
    ids: ids.flatMap((id) => id?.toLowerCase() ?? []),
    labels: labelsOf(recordAt(metadata, 'labels')),
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
