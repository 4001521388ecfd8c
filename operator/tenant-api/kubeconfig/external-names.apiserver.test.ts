import { expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { ExternalNames } from './external-names.ts';

const api = useOwnTestCluster();
const until = (holds: () => boolean) => vi.waitUntil(holds, { timeout: 20_000 });

test('a Service that becomes an alias, or is one no more, is not noticed', async () => {
  const namespace = await api.createNamespace('alias');
  const path = `/api/v1/namespaces/${namespace}/services`;
  const ports = [{ port: 443 }];
  const create = (name: string, spec: object, labels = {}) =>
    api.call('POST', path, { metadata: { name, labels }, spec });
  await create('plain', { ports });
  await create('alias', { type: 'ExternalName', externalName: 'vault.example.' });
  await create(
    'synced',
    { type: 'ExternalName', externalName: 'example.com' },
    { 'vcluster.loft.sh/managed-by': 'a' },
  );
  const connection = connectWith(api.kubeconfig);
  const names = new ExternalNames({
    connection,
    watchNamespaces: [],
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
  });
  const stop = new AbortController();
  names.follow(true, stop.signal);
  await until(() => names.of(namespace, 'alias') === 'vault.example');
  expect(names.of(namespace, 'plain')).toBeUndefined();
  expect(names.of(namespace, 'synced')).toBeUndefined();
  const patch = (name: string, spec: object) =>
    api.kubectl([
      'patch',
      'service',
      name,
      '-n',
      namespace,
      '--type=merge',
      '-p',
      JSON.stringify({ spec }),
    ]);
  await patch('plain', {
    type: 'ExternalName',
    externalName: 'other.example',
    clusterIP: null,
    clusterIPs: null,
  });
  await until(() => names.of(namespace, 'plain') === 'other.example');
  await patch('alias', { type: 'ClusterIP', externalName: null, ports });
  await until(() => names.of(namespace, 'alias') === undefined);
  names.follow(false, stop.signal);
  expect(names.of(namespace, 'plain')).toBeUndefined();
  stop.abort();
  await connection.close();
});
