import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/**
 * Hosted clusters of HyperShift, whose nodes are their own (docs/how-to/tenants/hosted-control-planes.md,
 * https://github.com/openshift/hypershift). What runs in the namespaces of their control planes is nobody's.
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
      // The Cluster that its Machines are of has this name, which is given once.
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
