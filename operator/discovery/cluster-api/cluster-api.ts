import type { TenantSourceName } from '../../model/tenant-sources.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/** Control plane kinds that another kind of tenants discovers itself. */
const OTHERS: ReadonlyMap<string, TenantSourceName> = new Map([
  ['HostedControlPlane', 'hypershift'],
  ['KamajiControlPlane', 'kamaji'],
  ['VCluster', 'vcluster'],
]);

/**
 * Clusters of Cluster API with their private nodes (docs/how-to/tenants/hosted-control-planes.md,
 * https://cluster-api.sigs.k8s.io). Leaves out clusters that a more specific kind finds, if
 * settings name that kind too.
 */
export const clusterApi: TenantSource = {
  name: 'cluster-api',
  resource: {
    group: 'cluster.x-k8s.io',
    plural: 'clusters',
    versions: ['v1beta2', 'v1beta1'],
    describe: (object, { namespace, name }) => {
      const controlPlane = textAt(recordAt(recordAt(object, 'spec'), 'controlPlaneRef'), 'kind');
      const otherKind = OTHERS.get(controlPlane ?? '');
      return {
        nodeMode: 'private',
        kubeconfig: { namespace, name: `${name}-kubeconfig`, key: 'value' },
        otherKind,
      };
    },
  },
  find: (host) => findByObjects('cluster-api', host),
};
