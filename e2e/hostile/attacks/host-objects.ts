import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Random } from '../../faults/random.ts';
import { type Put, tenantCluster, tenantOf } from '../world/honest-estate.ts';
import { controlPlane, loadBalancer, pod, resourceClaim, volumeClaim } from '../world/objects.ts';
import { mutated } from './mutate.ts';
import { hostileText, NAMES, TIMES } from './values.ts';

/**
 * Objects on the host that the admin of a namespace, the users of a platform project or a hostile syncer
 * can write. The host's own API server is to be trusted: what it would refuse is not among them, but for
 * objects of kinds that have no schema of Kubernetes' own.
 */
export interface HostAttack {
  readonly name: string;
  /** Given the name of the run's tenant cluster, which is that of its namespace, too. */
  make(random: Random, cluster: string): readonly Put[];
}

const HONEST = ['honest-a', 'honest-b', 'honest-busy', 'honest-nodes', 'honest-pods'] as const;

export const HOST_OBJECT_ATTACKS: readonly HostAttack[] = [
  {
    name: 'annotations that bill somebody else',
    make: (random, cluster) => {
      const honest = random.pick(HONEST);
      const keys = [
        'tenant',
        'display-name',
        'email',
        'project',
        'tenant-class',
        'plan',
        'currency',
        'exclude',
        'node-mode',
        'stripe-customer-id',
        'metronome-customer-id',
        'cost-center',
      ];
      const annotations = Object.fromEntries(
        keys.map((key) => [
          `meterfeed.io/${key}`,
          random.pick([tenantOf(honest), honest, 'true', 'private', hostileText(random)]),
        ]),
      );
      // The Namespace is the platform's, and stays as it is.
      return tenantCluster(cluster, Date.now() - 60_000, annotations).slice(1);
    },
  },
  {
    name: 'a control plane of the same name as an honest one',
    make: (random, cluster) => {
      const honest = random.pick(HONEST);
      const path = `/apis/apps/v1/namespaces/${cluster}/statefulsets/${honest}`;
      return [{ api: 'host', path, object: controlPlane(Date.now() - 60_000, honest) }];
    },
  },
  {
    name: 'many control planes',
    make: (random, cluster) =>
      Array.from({ length: random.pick([5, 60]) }, (_, index) => ({
        api: 'host',
        path: `/apis/apps/v1/namespaces/${cluster}/statefulsets/more-${index}`,
        object: controlPlane(Date.now() - 60_000, `more-${index}`),
      })),
  },
  {
    name: 'labels of other tenants and of the syncer',
    make: (random, cluster) =>
      Array.from({ length: 20 }, (_, index) =>
        podOf(cluster, index, random, {
          'vcluster.loft.sh/managed-by': random.pick([...HONEST, cluster]),
          'vcluster.loft.sh/vcluster-name': random.pick(HONEST),
          'vcluster.loft.sh/vcluster-namespace': random.pick(HONEST),
          'vcluster.loft.sh/namespace': random.pick(['default', 'job-1', 'kube-system']),
          'meterfeed.io/tenant': tenantOf(random.pick(HONEST)),
          app: random.pick(['vcluster', 'web']),
          release: random.pick(HONEST),
        }),
      ),
  },
  {
    name: 'pods of impossible sizes',
    make: (random, cluster) =>
      Array.from({ length: 20 }, (_, index) => {
        const requests = Object.fromEntries(
          ['cpu', 'memory', 'nvidia.com/gpu', 'example.com/gpu', 'rdma/ib'].map((name) => [
            name,
            random.pick(['0', '1n', '9223372036854775807', '1e18', '16777216Ti', '1', '500m']),
          ]),
        );
        return withRequests(podOf(cluster, index, random), requests);
      }),
  },
  {
    name: 'many pods',
    make: (random, cluster) =>
      Array.from({ length: random.pick([200, 1_500]) }, (_, index) =>
        podOf(cluster, index, random),
      ),
  },
  {
    name: 'times far away',
    make: (random, cluster) =>
      Array.from({ length: 20 }, (_, index) => {
        const put = podOf(cluster, index, random);
        const startedAt = random.pick(TIMES);
        const state = random.chance(0.5)
          ? { running: { startedAt } }
          : { terminated: { exitCode: 0, startedAt, finishedAt: random.pick(TIMES) } };
        const containerStatuses = [{ name: 'main', state }];
        return {
          ...put,
          object: { ...put.object, status: { phase: 'Running', containerStatuses } },
        };
      }),
  },
  {
    name: 'a platform instance that is mutated',
    make: (random, cluster) => {
      const honest = random.pick(HONEST);
      const instance = {
        apiVersion: 'management.loft.sh/v1',
        kind: 'VirtualClusterInstance',
        metadata: { labels: {}, annotations: { 'meterfeed.io/tenant': tenantOf(honest) } },
        spec: {
          displayName: hostileText(random),
          clusterRef: {
            cluster: 'host',
            namespace: random.pick([honest, cluster]),
            virtualCluster: random.pick([honest, cluster]),
          },
        },
        status: { phase: 'Ready', virtualCluster: { helmRelease: { values: 'a: [b]' } } },
      };
      const changed = mutated(instance, random);
      return [
        {
          api: 'host',
          path: `/apis/management.loft.sh/v1/namespaces/${cluster}/virtualclusterinstances/own`,
          object: { ...changed, metadata: instance.metadata },
        },
      ];
    },
  },
  {
    name: 'claims, volumes and load balancers of others',
    make: (random, cluster) => {
      const labels = { 'vcluster.loft.sh/managed-by': random.pick([...HONEST, cluster]) };
      const honest = random.pick(['honest-a', 'honest-b']);
      const user = { name: 'trainer', uid: `uid-pods-${honest}-trainer` };
      const at = Date.now() - 60_000;
      const put = (path: string, object: RawObject): Put => ({
        api: 'host',
        path: path.replace('~', `namespaces/${cluster}`),
        object,
      });
      return [
        put(
          '/apis/resource.k8s.io/v1/~/resourceclaims/theirs',
          resourceClaim(at, `dra-${cluster}`, user, labels),
        ),
        put(
          '/api/v1/~/persistentvolumeclaims/data',
          volumeClaim(at, random.pick(['16Ei', '1', '40Gi']), labels),
        ),
        put('/api/v1/~/services/front', loadBalancer(at, labels)),
      ];
    },
  },
  {
    name: 'names out of key functions',
    make: (random, cluster) =>
      Array.from({ length: 20 }, (_, index) => {
        const text = random.pick(NAMES);
        const put = podOf(cluster, index, random, {
          'vcluster.loft.sh/managed-by': cluster,
          'vcluster.loft.sh/namespace': text.replaceAll(/[^-A-Za-z0-9_.]/g, '').slice(0, 63),
        });
        const annotations = Object.fromEntries(
          ['labels', 'name', 'namespace', 'uid'].map((key) => [`vcluster.loft.sh/${key}`, text]),
        );
        const metadata = { ...(put.object['metadata'] as RawObject), annotations };
        return { ...put, object: { ...put.object, metadata } };
      }),
  },
];

/** Harmless, but for an operator with a bug in it that waits for it. */
export const TRIGGER_ATTACK: HostAttack = {
  name: 'the trigger of a planted bug',
  make: (random, cluster) => {
    const put = podOf(cluster, 0, random);
    const annotations = { trigger: 'planted-now' };
    const metadata = { ...(put.object['metadata'] as RawObject), annotations };
    return [{ ...put, object: { ...put.object, metadata } }];
  },
};

/** A pod in the namespace of a tenant cluster, by default brought there by its syncer. */
export function podOf(
  cluster: string,
  index: number,
  random: Random,
  labels: Readonly<Record<string, string>> = {
    'vcluster.loft.sh/managed-by': cluster,
    'vcluster.loft.sh/namespace': 'default',
  },
): Put {
  const startedAt = Date.now() - random.between(1, 100) * 1_000;
  const object = pod({
    requests: { cpu: '100m', memory: '128Mi' },
    node: 'hostile-host',
    labels,
    startedAt,
  });
  return { api: 'host', path: `/api/v1/namespaces/${cluster}/pods/pod-${index}`, object };
}

function withRequests(put: Put, requests: Readonly<Record<string, string>>): Put {
  const spec = put.object['spec'] as RawObject;
  const containers = [{ name: 'main', resources: { requests } }];
  return { ...put, object: { ...put.object, spec: { ...spec, containers } } };
}
