import { expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { SecretReader } from './secret-reader.ts';

const cluster = useOwnTestCluster();
const NEVER = new AbortController().signal;
const SECRET = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'billing' },
  stringData: { key: 'k' },
};
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'meterfeed-0' },
  spec: {
    containers: [
      {
        name: 'operator',
        image: 'i',
        envFrom: [{ secretRef: { name: 'meterfeed', optional: true } }],
      },
    ],
  },
};

test('a process that cannot find out which Secrets are its own gives none away, until it can', async () => {
  const namespace = await cluster.createNamespace('own');
  await cluster.call('POST', `/api/v1/namespaces/${namespace}/secrets`, SECRET);
  const connection = connectWith(cluster.kubeconfig);
  const reader = (inPod: boolean) =>
    new SecretReader({ connection, namespace, instance: 'meterfeed-0', inPod });
  const kindsRead = async (secrets: ReturnType<typeof reader>) => {
    const reads = await secrets.read(['billing', 'meterfeed'], NEVER);
    return [...reads.values()].map(({ kind }) => kind);
  };
  const inside = reader(true);
  expect((await inside.read(['billing'], NEVER)).get('billing')).toEqual({
    kind: 'failed',
    reason: expect.stringMatching(
      /^pod "meterfeed-0", which names the operator.s own Secrets: HTTP 404.*; set POD_NAME to the name of the pod/,
    ),
  });
  expect(await kindsRead(reader(false))).toEqual(['found', 'missing']);
  await cluster.call('POST', `/api/v1/namespaces/${namespace}/pods`, POD);
  expect(await kindsRead(inside)).toEqual(['found', 'refused']);
  await connection.close();
});
