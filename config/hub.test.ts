import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { isRecord } from '../operator/model/is-record.ts';

const cluster = useOwnTestCluster();
const HUB = join(import.meta.dirname, 'hub');

test('a hub is installed by one command, has no right in the cluster and keeps nothing there', async () => {
  const rendered = await cluster.kubectl(['kustomize', HUB]);
  const objects = parseAllDocuments(rendered).map((one): unknown => one.toJS());
  const kinds = objects.flatMap((one) => (isRecord(one) ? [String(one['kind'])] : []));
  expect(kinds.toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
    'ConfigMap',
    'Deployment',
    'Namespace',
    'PodDisruptionBudget',
    'Service',
  ]);
  expect(objects).toContainEqual(
    expect.objectContaining({
      kind: 'ConfigMap',
      data: expect.objectContaining({ ROLE: 'hub' }),
    }),
  );
  const deployment = objects.find((one) => isRecord(one) && one['kind'] === 'Deployment');
  expect(deployment).toMatchObject({
    metadata: { namespace: 'meterfeed-hub' },
    spec: { replicas: 2, template: { spec: { automountServiceAccountToken: false } } },
  });
  expect(rendered).not.toContain('serviceAccountName');
  expect(await cluster.kubectl(['apply', '--kustomize', HUB])).toContain(
    'deployment.apps/meterfeed created',
  );
});
