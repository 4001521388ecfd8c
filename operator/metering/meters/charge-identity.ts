import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { CollectorMetric } from '../../model/catalog.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { MeterSettings } from './meter.ts';
import type { ChargeIdentity } from './tally.ts';

/** The location and capacity type of a node. */
export type NodePlace = Pick<NodeState, 'capacityType' | 'zone' | 'region'>;

/** What a metric adds to the dimensions of every event. */
export interface IdentityParts {
  readonly sku?: string;
  /** The node's name for metrics of nodes; the tenant cluster's id otherwise. */
  readonly resourceId?: string;
  /** Set for node-related events only: it decides `zone` and, with REGION_FROM_NODE, `region`. */
  readonly node?: NodePlace | 'unknown';
  /** From {@link billedSplit} or {@link namespaceSplit}. */
  readonly split?: Split;
  readonly dimensions?: Readonly<Record<string, string>>;
}

/** The dimensions that split an object's charges; equal ones have equal keys. */
export interface Split {
  readonly key: string;
  readonly dimensions: Readonly<Record<string, string>>;
}

/** Splits by the namespace inside the tenant cluster, if known and METER_BY_NAMESPACE is set. */
export function namespaceSplit(cluster: TenantCluster, labels: ObjectLabels): Split {
  return splitBy(billedNamespace(cluster, labels), '');
}

/**
 * Splits pods and resource claims by namespace and, with meterByQueue, by queue
 * (docs/explanation/metering.md#queues).
 */
export function billedSplit(cluster: TenantCluster, labels: ObjectLabels): Split {
  const queue = cluster.metering.meterByQueue ? (labels.queue ?? '') : '';
  return splitBy(billedNamespace(cluster, labels), queue);
}

function billedNamespace(
  { metering, source, nodeMode }: TenantCluster,
  labels: ObjectLabels,
): string {
  // On the host only vCluster's syncer writes the label; in a tenant cluster's own API it is always
  // known.
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
 * Returns the identity of a charge to a tenant cluster
 * (docs/explanation/metering.md#dimensions-and-properties). Every event has `tenant_cluster` and,
 * where known, `tenant_class`; node-related events have `zone`.
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
