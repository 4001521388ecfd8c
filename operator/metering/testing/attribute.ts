import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Attribution } from '../attribution.ts';
import type { ObjectLabels } from '../../observation/object-labels.ts';

const CONTROL_PLANE = [
  'tenant-cluster',
  'vcluster',
  'vcluster-etcd',
  'vcluster-api',
  'vcluster-controller',
];

/** Attribution as design 5 states it, for tests of the rules that build on it. */
export function attribute(labels: ObjectLabels, clusters: readonly TenantCluster[]): Attribution {
  const named = (name: string | undefined) => clusters.find((cluster) => cluster.name === name);
  if (labels.managedBy !== undefined) {
    const cluster = named(labels.managedBy);
    return cluster === undefined ? { kind: 'unattributed' } : { kind: 'tenant', cluster };
  }
  const own = named(labels.release);
  if (own !== undefined && CONTROL_PLANE.includes(labels.app ?? '')) {
    return { kind: 'control-plane', cluster: own };
  }
  const [only, ...others] = clusters;
  if (only === undefined || others.length > 0) return { kind: 'unattributed' };
  return { kind: 'tenant', cluster: only };
}
