import type { TenantSourceName } from '../../model/tenant-sources.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/** Kinds of control planes that another kind of tenants finds by itself. */
const OTHERS: ReadonlyMap<string, TenantSourceName> = new Map([
  ['HostedControlPlane', 'hypershift'],
  ['KamajiControlPlane', 'kamaji'],
  ['VCluster', 'vcluster'],
]);

/**
 * Clusters of Cluster API, whose nodes are their own (docs/how-to/tenants/hosted-control-planes.md, https://cluster-api.sigs.k8s.io):
 * all but those that a more specific kind finds, where settings name that kind as well.
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
