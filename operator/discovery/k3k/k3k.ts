import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/**
 * The syncer sets this label on everything that it creates on the host, and overwrites the tenant's
 * value.
 */
const CLUSTER_LABEL = 'k3k.io/clusterName';

/** Kubernetes' limit for a Service name, which k3k applies to all names. */
const LONGEST_NAME = 63;

/**
 * Clusters of k3k (docs/how-to/tenants/k3k.md, https://github.com/rancher/k3k), by mode:
 * 1. `shared`: the tenants' objects are synced to their namespace.
 * 2. `virtual`: the tenants' pods run inside agent and server pods, which are billed instead.
 * 3. `hcp`: the tenants' pods run on private nodes.
 */
export const k3k: TenantSource = {
  name: 'k3k',
  resource: {
    group: 'k3k.io',
    plural: 'clusters',
    versions: ['v1beta1'],
    describe: (object, { namespace, name }) => {
      const mode = textAt(recordAt(object, 'spec'), 'mode') ?? 'shared';
      const secret = `k3k-${name}-kubeconfig`;
      return {
        nodeMode: mode === 'hcp' ? 'private' : 'shared',
        // Its servers are nodes, like its agents. Only in other modes does k3k start them with
        // `disable-agent`.
        ...(mode === 'virtual' && { runsOnControlPlane: true }),
        // A longer name ends in part of a hash.
        ...(secret.length <= LONGEST_NAME && {
          kubeconfig: { namespace, name: secret, key: 'kubeconfig.yaml' },
        }),
      };
    },
  },
  claim: (label) => {
    const synced = label(CLUSTER_LABEL);
    if (synced !== undefined) return { kind: 'k3k', part: 'tenant', name: synced };
    const name = label('cluster');
    if (name === undefined) return undefined;
    if (label('role') === 'server') return { kind: 'k3k', part: 'control-plane', name };
    if (label('type') !== 'agent') return undefined;
    const part = label('mode') === 'virtual' ? 'tenant' : 'control-plane';
    return { kind: 'k3k', part, name };
  },
  find: (host) => findByObjects('k3k', host),
};
