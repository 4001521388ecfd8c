import { createHash } from 'node:crypto';
import type { SimulatedTenantCluster } from './cloud.ts';
import type { ObjectMeta } from './objects.ts';

const LONGEST_NAME = 63;

/** Metadata of a tenant's object as vCluster writes it into the host namespace. */
export function syncedMeta(
  cluster: SimulatedTenantCluster,
  name: string,
  tenantNamespace: string,
): ObjectMeta {
  return {
    name: hostName(`${name}-x-${tenantNamespace}-x-${cluster.name}`),
    namespace: cluster.namespace,
    labels: {
      'vcluster.loft.sh/managed-by': cluster.name,
      'vcluster.loft.sh/namespace': tenantNamespace,
    },
    annotations: {
      'vcluster.loft.sh/object-name': name,
      'vcluster.loft.sh/object-namespace': tenantNamespace,
    },
  };
}

/** Labels that the vCluster chart puts on a tenant cluster's own objects. */
export function controlPlaneLabels(
  cluster: SimulatedTenantCluster,
): Readonly<Record<string, string>> {
  return {
    app: cluster.app,
    chart: 'vcluster-0.36.2',
    release: cluster.name,
    heritage: 'Helm',
  };
}

function hostName(name: string): string {
  if (name.length <= LONGEST_NAME) return name;
  const digest = createHash('sha256').update(name).digest('hex');
  return `${name.slice(0, 52)}-${digest.slice(0, 10)}`;
}
