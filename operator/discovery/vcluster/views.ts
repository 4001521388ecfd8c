import type { Projected, Projection, RawObject } from '../../kubernetes/source.ts';
import { identityOf, recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import type { NodeMode } from '../tenant-cluster.ts';
import { createdAtOf, type Metadata, metadataOf } from '../views.ts';
import { nodeModeOf } from './node-mode.ts';
import { DISCOVERY_APPS, MANAGED_BY_LABEL } from './selection.ts';

/**
 * A StatefulSet or Deployment of a tenant cluster's control plane. Its fields do not clash with
 * observation's view of the same object, so one watch serves both.
 */
export interface ControlPlaneWorkload extends Projected {
  readonly metadata: Metadata;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The tenant cluster's name: label `release`, else the object's name. */
  readonly release: string;
  /** The service account of its pods, in its namespace. The syncer uses it on the host cluster. */
  readonly serviceAccount: string;
}

/** A virtual cluster instance of the platform (`management.loft.sh/v1`). */
export interface PlatformInstance extends Projected {
  readonly metadata: Metadata;
  readonly createdAt: number;
  readonly deleting: boolean;
  /** The old copy of an instance that is being moved between projects. */
  readonly ignored: boolean;
  readonly displayName?: string;
  /** The platform's name of the host cluster. */
  readonly cluster?: string;
  /** Namespace of its workload; absent for external and standalone instances. */
  readonly hostNamespace?: string;
  readonly hostName: string;
  /** From the values that the platform rendered; absent if unknown. */
  readonly nodeMode?: NodeMode;
}

/** The resource of platform instances. */
export const PLATFORM_INSTANCES = {
  group: 'management.loft.sh',
  version: 'v1',
  plural: 'virtualclusterinstances',
} as const;

/**
 * Projects control plane workloads; leaves out those that a syncer created
 * (docs/explanation/discovery.md#whose-an-object-is).
 */
export function controlPlaneWorkload(labelPrefix: string): Projection<ControlPlaneWorkload> {
  return (object) => {
    const identity = identityOf(object);
    const metadata = metadataOf(object, labelPrefix);
    const { labels } = metadata;
    if (identity === undefined || MANAGED_BY_LABEL in labels) return undefined;
    if (!DISCOVERY_APPS.includes(labels['app'] ?? '')) return undefined;
    const release = labels['release'] || identity.name;
    const serviceAccount = serviceAccountOf(object);
    return { ...identity, metadata, createdAt: createdAtOf(object), release, serviceAccount };
  };
}

/** Projects every platform instance, of any cluster. */
export function platformInstance(labelPrefix: string): Projection<PlatformInstance> {
  return (object) => {
    const identity = identityOf(object);
    if (identity === undefined) return undefined;
    const spec = recordAt(object, 'spec');
    const reference = recordAt(spec, 'clusterRef');
    const displayName = textAt(spec, 'displayName');
    const cluster = textAt(reference, 'cluster');
    const namespace = textAt(reference, 'namespace');
    const nodeMode = nodeModeOf(object);
    return {
      ...identity,
      metadata: metadataOf(object, labelPrefix),
      createdAt: createdAtOf(object),
      deleting: textAt(recordAt(object, 'metadata'), 'deletionTimestamp') !== undefined,
      ignored: recordAt(object, 'status')['ignoreReconciliation'] === true,
      hostName: textAt(reference, 'virtualCluster') ?? identity.name,
      displayName,
      cluster,
      hostNamespace: namespace,
      nodeMode,
    };
  };
}

function serviceAccountOf(workload: RawObject): string {
  const template = recordAt(recordAt(workload, 'spec'), 'template');
  return textAt(recordAt(template, 'spec'), 'serviceAccountName') ?? 'default';
}
