import { expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { Reflector } from './reflector.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { createRecordingHandler } from './testing/recording-handler.ts';
import { projectTestPod, type TestPod } from './testing/reflector-rig.ts';

const cluster = useOwnTestCluster();

test('a watch outlives a restart of the API server, and misses nothing', async () => {
  const namespace = await cluster.createNamespace('restart');
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const create = (name: string) =>
    cluster.call('POST', path, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } });
  await create('before');
  const connection = connectWith(cluster.kubeconfig);
  const handler = createRecordingHandler<TestPod>();
  const stop = new AbortController();
  const source = new Reflector<TestPod>({
    connection,
    resource: { group: '', version: 'v1', plural: 'configmaps', namespace },
    project: projectTestPod,
    handlers: [handler],
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
    timings: { backoffCap: 500 },
  });
  const running = source.run(stop.signal);
  await source.ready(stop.signal);
  await cluster.stopApiServer();
  await cluster.startApiServer();
  await cluster.call('DELETE', `${path}/before`);
  await create('after');
  await handler.received('upserted', 'after');
  await handler.received('deleted', 'before');
  expect(handler.log).toEqual([
    `upserted ${namespace}/before`,
    `deleted ${namespace}/before`,
    `upserted ${namespace}/after`,
  ]);
  expect(source.health().state).toBe('synced');
  stop.abort();
  await running;
  await connection.close();
});
