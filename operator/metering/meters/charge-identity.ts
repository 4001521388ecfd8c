import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { CollectorMetric } from '../../model/catalog.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { MeterSettings } from './meter.ts';
import type { ChargeIdentity } from './tally.ts';

/** Where a node is, and how it is bought. */
export type NodePlace = Pick<NodeState, 'capacityType' | 'zone' | 'region'>;

/** What a metric adds to the dimensions that every event carries. */
export interface IdentityParts {
  readonly sku?: string | undefined;
  /** The node's name for per-node metrics; the tenant cluster's id otherwise. */
  readonly resourceId?: string;
  /** Given for node-related events only: zone and, with REGION_FROM_NODE, region come from it. */
  readonly node?: NodePlace | 'unknown';
  /** Of {@link billedSplit} or {@link namespaceSplit}. */
  readonly split?: Split;
  readonly dimensions?: Readonly<Record<string, string>>;
}

/** What an object's charges are told apart by, as dimensions of them; equal ones have one key. */
export interface Split {
  readonly key: string;
  readonly dimensions: Readonly<Record<string, string>>;
}

/** By the namespace inside the tenant cluster (METER_BY_NAMESPACE), where that is asked for and known. */
export function namespaceSplit(cluster: TenantCluster, labels: ObjectLabels): Split {
  return splitBy(billedNamespace(cluster, labels), '');
}

/** Of pods and resource claims: by the queue (meterByQueue) as well (docs/explanation/metering.md#queues). */
export function billedSplit(cluster: TenantCluster, labels: ObjectLabels): Split {
  const queue = cluster.metering.meterByQueue ? (labels.queue ?? '') : '';
  return splitBy(billedNamespace(cluster, labels), queue);
}

function billedNamespace(
  { metering, source, nodeMode }: TenantCluster,
  labels: ObjectLabels,
): string {
  // On the host only the syncer of vCluster writes it; from an API of its own it is known anyway.
  const isWritten = source === 'workload' || source === 'external' || nodeMode === 'private';
  return isWritten && metering.meterByNamespace ? (labels.virtualNamespace ?? '') : '';
}

const NO_SPLIT: Split = { key: '', dimensions: {} };

function splitBy(namespace: string, queue: string): Split {
  if (namespace === '' && queue === '') return NO_SPLIT;
  return {
    key: keyOf([namespace, queue]),
    dimensions: { ...(namespace && { namespace }), ...(queue && { queue }) },
  };
}

/**
 * The identity of a charge to a tenant cluster as a whole: `tenant_cluster` and, where known,
 * `tenant_class` are on every event, `zone` on node-related ones
 * (docs/explanation/metering.md#dimensions-and-properties).
 */
export function chargeIdentity(
  cluster: TenantCluster,
  metric: CollectorMetric,
  settings: MeterSettings,
  parts: IdentityParts = {},
): ChargeIdentity {
  const tenantClass = cluster.tenantClass ?? settings.defaultTenantClass;
  const node = typeof parts.node === 'object' ? parts.node : undefined;
  const zone = parts.node === undefined ? undefined : (node?.zone ?? settings.zone);
  const region = (settings.regionFromNode ? node?.region : undefined) ?? settings.region;
  return {
    tenant: cluster.tenant,
    metric,
    region,
    resource_id: parts.resourceId ?? cluster.id,
    ...(cluster.project === undefined ? {} : { project: cluster.project }),
    ...(parts.sku === undefined ? {} : { sku: parts.sku }),
    dimensions: {
      tenant_cluster: cluster.id,
      ...(tenantClass === undefined ? {} : { tenant_class: tenantClass }),
      ...(zone === undefined ? {} : { zone }),
      ...parts.split?.dimensions,
      ...parts.dimensions,
    },
  };
}
