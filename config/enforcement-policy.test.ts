import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../operator/kubernetes/connection.ts';
import { connectWith } from '../operator/kubernetes/testing/connect.ts';
import { serviceAccountKubeconfig } from './testing/rights.ts';

const cluster = useOwnTestCluster();
const CONFIG = fileURLToPath(new URL('.', import.meta.url));
const NAMESPACE = 'tenant-a';
const REFUSED = "ValidatingAdmissionPolicy 'meterfeed-enforcement'";
const KINDS = ['namespace', 'statefulset', 'deployment'] as const;
const WORKLOADS = ['statefulset', 'deployment'] as const;

let directory = '';
/** As the operator. */
let connection: Connection;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-enforcement-policy-'));
  const from = (path: string): string => relative(directory, join(CONFIG, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from('default')],
    components: [from('components/enforcement')],
  };
  await writeFile(join(directory, 'kustomization.yaml'), JSON.stringify(kustomization));
  await cluster.kubectl(['create', 'namespace', NAMESPACE]);
  for (const kind of WORKLOADS) {
    await cluster.kubectl(['apply', '--filename', '-'], JSON.stringify(workload(kind)));
  }
  for (const kind of KINDS) {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await patchAsAdministrator(kind, { metadata: { labels } });
  }
  await cluster.kubectl(['apply', '--kustomize', directory]);
  connection = connectWith(
    await serviceAccountKubeconfig(cluster, 'meterfeed-system', 'meterfeed'),
  );
  // The API server takes a while to see a new policy.
  for (let round = 0; round < 60; round += 1) {
    if ((await patch('namespace', { metadata: { labels: { round: `${round}` } } })) !== '') break;
    await sleep(500);
  }
}, 180_000);

afterAll(async () => {
  await connection.close();
  await rm(directory, { recursive: true, force: true });
});

describe.each(KINDS)(
  'a thief of the token of the operator, with the right to patch a %s',
  (kind) => {
    test.each([
      [
        'lifts the pod security of a namespace',
        { labels: { 'pod-security.kubernetes.io/enforce': null } },
      ],
      ['makes it somebody else’s', { labels: { 'meterfeed.io/tenant': 'other' } }],
      ['sets a label of a name like ours', { labels: { 'meterfeed.io/suspended-too': 'true' } }],
      ['has a controller act on an annotation', { annotations: { 'example.com/run': 'sh' } }],
      [
        'writes a mark of labels as an annotation',
        { annotations: { 'meterfeed.io/suspended': 'true' } },
      ],
      ['has it stay for ever', { finalizers: ['example.com/never'] }],
      [
        'has it deleted with another object',
        { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'a' }] },
      ],
    ])('%s', async (_what, metadata) => {
      expect(await patch(kind, { metadata })).toContain(REFUSED);
    });

    test('is not kept from setting, changing and removing the marks of enforcement', async () => {
      const marks = (state: string | null) => ({
        metadata: {
          labels: {
            'meterfeed.io/billing-state': state,
            'billing.example.com/billing-state': state,
            'meterfeed.io/suspended': state,
            'suspended.meterfeed.io/main': state,
          },
          annotations: {
            'meterfeed.io/billing-reason': state,
            'meterfeed.io/billing-state-at': state,
            'meterfeed.io/suspended-accounts': state,
          },
        },
      });
      for (const state of ['suspended', 'warning', null]) {
        expect(await patch(kind, marks(state))).toBe('');
      }
    });

    test('leaves everybody else free', async () => {
      const labels = { 'pod-security.kubernetes.io/enforce': 'baseline' };
      await patchAsAdministrator(kind, { metadata: { labels } });
    });
  },
);

test.each(WORKLOADS)(
  'a pod template of a %s is given another image, account or number of pods',
  async (kind) => {
    const containers = [{ name: 'main', image: 'example.com/evil' }];
    for (const spec of [
      { template: { spec: { containers } } },
      { template: { spec: { serviceAccountName: 'cluster-admin' } } },
      { replicas: 0 },
    ]) {
      expect(await patch(kind, { spec })).toContain(REFUSED);
    }
  },
);

test('an operator in another namespace is not confined', async () => {
  await cluster.kubectl(['create', 'serviceaccount', 'meterfeed', '--namespace', NAMESPACE]);
  const bound = ['--clusterrole=meterfeed-enforcement', `--serviceaccount=${NAMESPACE}:meterfeed`];
  await cluster.kubectl(['create', 'clusterrolebinding', 'another', ...bound]);
  const another = connectWith(await serviceAccountKubeconfig(cluster, NAMESPACE, 'meterfeed'));
  const labels = { 'meterfeed.io/tenant': 'other' };
  expect(await patch('namespace', { metadata: { labels } }, another)).toContain(REFUSED);
  await another.close();
});

/** Why the API server refuses a patch of the operator's account; nothing when it is done. */
async function patch(
  kind: (typeof KINDS)[number],
  change: object,
  by = connection,
): Promise<string> {
  const outcome = await by.request(pathOf(kind), {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body: change,
  });
  if (outcome.kind === 'ok') return '';
  return outcome.kind === 'status' ? outcome.message : outcome.kind;
}

async function patchAsAdministrator(kind: (typeof KINDS)[number], change: object): Promise<void> {
  const name = kind === 'namespace' ? NAMESPACE : 'main';
  const patched = ['--type', 'merge', '--patch', JSON.stringify(change)];
  await cluster.kubectl(['patch', kind, name, '--namespace', NAMESPACE, ...patched]);
}

function pathOf(kind: (typeof KINDS)[number]): string {
  if (kind === 'namespace') return `/api/v1/namespaces/${NAMESPACE}`;
  return `/apis/apps/v1/namespaces/${NAMESPACE}/${kind}s/main`;
}

function workload(kind: (typeof WORKLOADS)[number]) {
  const own = { app: 'main' };
  return {
    apiVersion: 'apps/v1',
    kind: kind === 'deployment' ? 'Deployment' : 'StatefulSet',
    metadata: { name: 'main', namespace: NAMESPACE },
    spec: {
      ...(kind === 'statefulset' && { serviceName: 'main' }),
      selector: { matchLabels: own },
      template: {
        metadata: { labels: own },
        spec: { containers: [{ name: 'main', image: 'example.com/main' }] },
      },
    },
  };
}
