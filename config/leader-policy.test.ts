import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import type { Connection } from '../operator/kubernetes/connection.ts';
import { connectWith } from '../operator/kubernetes/testing/connect.ts';
import { serviceAccountKubeconfig } from './testing/rights.ts';

const cluster = useOwnTestCluster();
const CONFIG = fileURLToPath(new URL('.', import.meta.url));
const NAMESPACE = 'meterfeed-system';
const REFUSED = "ValidatingAdmissionPolicy 'meterfeed-leader'";
const LABEL = 'meterfeed.io/role';

let directory = '';
/** As the operator. */
let connection: Connection;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-leader-policy-'));
  const from = (path: string): string => relative(directory, join(CONFIG, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from('default')],
    components: [from('components/replicated')],
  };
  await writeFile(join(directory, 'kustomization.yaml'), JSON.stringify(kustomization));
  await cluster.kubectl(['apply', '--kustomize', directory]);
  for (const [name, app] of [
    ['own', 'meterfeed'],
    ['database', 'postgresql'],
  ] as const) {
    await cluster.kubectl(['apply', '--filename', '-'], JSON.stringify(pod(name, app)));
  }
  connection = connectWith(await serviceAccountKubeconfig(cluster, NAMESPACE, 'meterfeed'));
  // The API server takes a while to see a new policy.
  for (let round = 0; round < 60; round += 1) {
    if ((await patch('own', { labels: { round: `${round}` } })) !== '') break;
    await sleep(500);
  }
}, 180_000);

afterAll(async () => {
  await connection.close();
  await rm(directory, { recursive: true, force: true });
});

test('the operator that leads cannot put its label on its pod, or take it away', async () => {
  expect(await patch('own', { labels: { [LABEL]: 'leader' } })).toBe('');
  expect(await patch('own', { labels: { [LABEL]: null } })).toBe('');
});

test.each([
  ['moves a Service to another pod', { labels: { 'app.kubernetes.io/name': 'other' } }],
  ['sets a label that means something to another controller', { labels: { team: 'other' } }],
  ['gives its label another meaning', { labels: { [LABEL]: 'primary' } }],
  ['has a controller act on an annotation', { annotations: { 'example.com/run': 'sh' } }],
  ['has the pod stay for ever', { finalizers: ['example.com/never'] }],
  [
    'has it deleted with another object',
    { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'a' }] },
  ],
])('a thief of the token of the operator %s', async (_what, metadata) => {
  expect(await patch('own', metadata)).toContain(REFUSED);
});

test('a thief of the token of the operator has a pod run another image', async () => {
  const containers = [{ name: 'main', image: 'example.com/evil' }];
  expect(await patch('own', {}, { containers })).toContain(REFUSED);
});

test('a thief of the token has the Service lead to a pod that is not ours', async () => {
  expect(await patch('database', { labels: { [LABEL]: 'leader' } })).toContain(REFUSED);
});

test('the Service leads to a replica that waits', async () => {
  const selector = ['get', 'service', 'meterfeed', '--namespace', NAMESPACE];
  const text = await cluster.kubectl([...selector, '--output=jsonpath={.spec.selector}']);
  expect(JSON.parse(text)).toEqual({ 'app.kubernetes.io/name': 'meterfeed', [LABEL]: 'leader' });
});

/** Why the API server refuses a patch of the operator's account; nothing when it is done. */
async function patch(name: string, metadata: object, spec?: object): Promise<string> {
  const outcome = await connection.request(`/api/v1/namespaces/${NAMESPACE}/pods/${name}`, {
    method: 'PATCH',
    contentType: 'application/strategic-merge-patch+json',
    body: { metadata, spec },
  });
  if (outcome.kind === 'ok') return '';
  return outcome.kind === 'status' ? outcome.message : outcome.kind;
}

function pod(name: string, app: string) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE, labels: { 'app.kubernetes.io/name': app } },
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'main',
          image: 'example.com/main',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}
