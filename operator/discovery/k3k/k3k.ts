import { recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { findByObjects } from '../tenant-objects.ts';
import type { TenantSource } from '../tenant-source.ts';

/** Its syncer writes this label on everything that it brings to the host, over what the tenant wrote there. */
const CLUSTER_LABEL = 'k3k.io/clusterName';

/** Kubernetes' limit of a Service's name, which k3k keeps to for all that it makes. */
const LONGEST_NAME = 63;

/**
 * Clusters of k3k (docs/how-to/tenants/k3k.md, https://github.com/rancher/k3k): in mode `shared` what their tenants run is
 * brought to their namespace, in mode `virtual` it runs inside of agent and server pods, which are billed in its
 * place, and in mode `hcp` it runs on nodes of their own.
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
        // Its servers are nodes, as its agents are: only in other modes k3k starts them with `disable-agent`.
        ...(mode === 'virtual' && { runsOnControlPlane: true }),
        // A longer one ends in a part of a hash.
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
