import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { type Put, tenantOf } from '../world/honest-estate.ts';
import { apiTime } from '../world/objects.ts';
import { type HostAttack, podOf } from './host-objects.ts';
import { mutated } from './mutate.ts';
import { hostileText, TIMES } from './values.ts';

const HONEST = ['honest-a', 'honest-b', 'honest-busy', 'honest-nodes', 'honest-pods'] as const;

/** Custom resources of other kinds of tenants than vCluster, and the labels that their controllers write. */
export const TENANT_KIND_ATTACKS: readonly HostAttack[] = [
  {
    name: 'tenants of other kinds',
    make: (random, cluster) =>
      KINDS.flatMap(({ path, spec, status }) => {
        const name = random.pick([...HONEST, cluster, 'default']);
        const metadata = {
          creationTimestamp: random.pick([apiTime(Date.now() - 60_000), ...TIMES]),
          annotations: { 'meterfeed.io/tenant': tenantOf(random.pick(HONEST)) },
        };
        const object = mutated({ metadata, spec, status }, random);
        return [put(`${path.replace('~', `namespaces/${cluster}`)}/${name}`, object)];
      }),
  },
  {
    name: 'labels of other kinds of tenants',
    make: (random, cluster) =>
      Array.from({ length: 20 }, (_, index) =>
        podOf(cluster, index, random, {
          'k3k.io/clusterName': random.pick([...HONEST, cluster]),
          cluster: random.pick(HONEST),
          role: random.pick(['server', 'agent']),
          type: random.pick(['agent', 'x']),
          mode: random.pick(['virtual', 'shared']),
          'capsule.clastix.io/tenant': random.pick(HONEST),
          'cluster.x-k8s.io/cluster-name': random.pick(HONEST),
          'hypershift.openshift.io/hosted-control-plane': random.pick(HONEST),
          'vcluster.loft.sh/managed-by': random.pick([...HONEST, cluster]),
        }),
      ),
  },
  {
    name: 'records of machines that are mutated',
    make: (random, cluster) =>
      Array.from({ length: 10 }, (_, index) => {
        const machine = {
          metadata: {
            labels: { 'cluster.x-k8s.io/cluster-name': random.pick([...HONEST, cluster]) },
          },
          spec: { clusterName: random.pick(HONEST), providerID: hostileText(random) },
          status: {
            nodeRef: { name: random.pick(['honest-nodes-1', 'host-gpu']) },
            phase: 'Running',
          },
        };
        const path = `/apis/cluster.x-k8s.io/v1beta2/namespaces/${cluster}/machines/m-${index}`;
        return put(path, mutated(machine, random));
      }),
  },
];

interface TenantKind {
  readonly path: string;
  readonly spec: RawObject;
  readonly status: RawObject;
}

const KINDS: readonly TenantKind[] = [
  {
    path: '/apis/k3k.io/v1beta1/~/clusters',
    spec: { mode: 'shared', servers: 1, agents: 1 },
    status: { phase: 'Ready' },
  },
  {
    path: '/apis/kamaji.clastix.io/v1alpha1/~/tenantcontrolplanes',
    spec: { kubernetes: { version: 'v1.34.0' } },
    status: { kubeconfig: { admin: { secretName: '../meterfeed-system/api' } } },
  },
  {
    path: '/apis/hypershift.openshift.io/v1beta1/~/hostedclusters',
    spec: { infraID: 'honest-nodes' },
    status: { kubeconfig: { name: 'svc-kubeconfig' } },
  },
  {
    path: '/apis/cluster.x-k8s.io/v1beta2/~/clusters',
    spec: { controlPlaneRef: { kind: 'KubeadmControlPlane', name: 'x' } },
    status: { phase: 'Provisioned' },
  },
];

function put(path: string, object: RawObject): Put {
  return { api: 'host', path, object };
}
