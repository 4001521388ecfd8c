import type { RawObject } from '../../kubernetes/source.ts';
import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/**
 * Control planes of Kamaji, whose tenants have private nodes
 * (docs/how-to/tenants/hosted-control-planes.md, https://github.com/clastix/kamaji).
 */
export const kamaji: TenantSource = {
  name: 'kamaji',
  resource: {
    group: 'kamaji.clastix.io',
    plural: 'tenantcontrolplanes',
    versions: ['v1alpha1'],
    describe: (object, { namespace, name }) => {
      const written = recordAt(recordAt(recordAt(object, 'status'), 'kubeconfig'), 'admin');
      const secret = textAt(written, 'secretName') ?? `${name}-admin-kubeconfig`;
      // Its server is the control plane's Service, whatever address the other keys name.
      return {
        nodeMode: 'private',
        kubeconfig: { namespace, name: secret, key: 'admin.svc' },
        machineCluster: clusterOf(object),
      };
    },
  },
  find: (host) => findByObjects('kamaji', host),
};

/**
 * The Cluster of Cluster API that it is the control plane of. It has the labels of the
 * KamajiControlPlane.
 */
function clusterOf(object: RawObject): string | undefined {
  return textAt(recordAt(recordAt(object, 'metadata'), 'labels'), 'cluster.x-k8s.io/cluster-name');
}
