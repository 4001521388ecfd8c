import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/**
 * Hosted clusters of HyperShift with their private nodes
 * (docs/how-to/tenants/hosted-control-planes.md, https://github.com/openshift/hypershift). Pods in
 * the namespaces of their control planes belong to nobody.
 */
export const hypershift: TenantSource = {
  name: 'hypershift',
  resource: {
    group: 'hypershift.openshift.io',
    plural: 'hostedclusters',
    versions: ['v1beta1'],
    describe: (object, { namespace, name }) => {
      const written = recordAt(recordAt(object, 'status'), 'kubeconfig');
      const secret = textAt(written, 'name') ?? `${name}-admin-kubeconfig`;
      // The Cluster of its Machines has this name, which never changes.
      const machineCluster = textAt(recordAt(object, 'spec'), 'infraID');
      return {
        nodeMode: 'private',
        kubeconfig: { namespace, name: secret, key: 'kubeconfig' },
        machineCluster,
      };
    },
  },
  find: (host) => findByObjects('hypershift', host),
};
