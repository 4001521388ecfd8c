import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import type { Connection } from './connection.ts';
import type { ReflectorOptions } from './reflector-options.ts';
import { Reflector } from './reflector.ts';
import type { ApiResource } from './source.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { createRecordingHandler } from './testing/recording-handler.ts';
import { projectTestPod, type TestPod } from './testing/reflector-rig.ts';
import { WIDGET_CRD, WIDGETS } from './testing/widget.ts';

const cluster = useTestCluster();
let connection: Connection;

beforeAll(async () => {
  await cluster.installCRDs(WIDGET_CRD);
  connection = connectWith(cluster.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

async function namespaced(prefix: string): Promise<ApiResource> {
  const namespace = await cluster.createNamespace(prefix);
  return { group: '', version: 'v1', plural: 'configmaps', namespace };
}

const collection = (resource: ApiResource): string =>
  `/api/v1/namespaces/${resource.namespace ?? ''}/configmaps`;

async function create(resource: ApiResource, name: string): Promise<void> {
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } };
  const outcome = await connection.request(collection(resource), { method: 'POST', body });
  expect(outcome).toMatchObject({ kind: 'ok' });
}

async function remove(resource: ApiResource, name: string): Promise<void> {
  const outcome = await connection.request(`${collection(resource)}/${name}`, { method: 'DELETE' });
  expect(outcome).toMatchObject({ kind: 'ok' });
}

function reflect(resource: ApiResource, options: Partial<ReflectorOptions<TestPod>> = {}) {
  const handler = createRecordingHandler<TestPod>();
  const logger = createCapturingLogger();
  const stop = new AbortController();
  const source = new Reflector<TestPod>({
    connection,
    resource,
    project: projectTestPod,
    handlers: [handler],
    clock: systemClock,
    random: Math.random,
    logger,
    ...options,
  });
  const running = source.run(stop.signal);
  return {
    source,
    handler,
    logger,
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

describe('reflector against a real API server', () => {
  test('lists in pages and follows creations and deletions', async () => {
    const resource = await namespaced('paging');
    for (let batch = 0; batch < 510; batch += 30) {
      const names = Array.from({ length: 30 }, (_, i) => `c${batch + i}`);
      await Promise.all(names.map((name) => create(resource, name)));
    }
    const { source, handler, stop } = reflect(resource);
    await source.ready(new AbortController().signal);
    expect(source.size).toBe(510);
    await create(resource, 'later');
    await handler.received('upserted', 'later');
    await remove(resource, 'c7');
    expect((await handler.received('deleted', 'c7')).arrival.late).toBe(false);
    expect(source.size).toBe(510);
    await stop();
  });

  test('resumes from a stored version with the deletions since', async () => {
    const resource = await namespaced('resuming');
    await create(resource, 'x');
    const first = reflect(resource);
    await first.source.ready(new AbortController().signal);
    const resourceVersion = first.source.resourceVersion();
    const objects = [...first.source.values()];
    await first.stop();
    await remove(resource, 'x');
    const second = reflect(resource, { resume: { resourceVersion, objects, knownAt: 5 } });
    expect((await second.handler.received('deleted', 'x')).arrival).toMatchObject({
      late: false,
      knownUntil: 5,
    });
    await second.stop();
  });

  test('a version that the server no longer knows leads to a list that finds the deletion', async () => {
    const objects = [{ uid: 'gone', namespace: '', name: 'gone', phase: '' }];
    // A version from before the resource was installed, which its watch cache never had.
    const { handler, stop, source } = reflect(WIDGETS, {
      resume: { resourceVersion: '1', objects },
    });
    expect((await handler.received('deleted', 'gone')).arrival.late).toBe(true);
    await source.ready(new AbortController().signal);
    await stop();
  });

  test('compares itself with an exact list and finds nothing wrong', async () => {
    const resource = await namespaced('comparing');
    await create(resource, 'x');
    const requested: string[] = [];
    const { source, logger, stop } = reflect(resource, {
      timings: { comparison: 50 },
      connection: {
        stream: (path, options) => connection.stream(path, options),
        request: async (path, options) => {
          const outcome = await connection.request(path, options);
          const match = options?.query?.['resourceVersionMatch'];
          if (match !== undefined) requested.push(`${String(match)} ${outcome.kind}`);
          return outcome;
        },
      },
    });
    await source.ready(new AbortController().signal);
    while (requested.length < 3) await create(resource, `c${Math.random().toString(36).slice(2)}`);
    expect(requested.slice(0, 3)).toEqual(['Exact ok', 'Exact ok', 'Exact ok']);
    expect(logger.lines.filter((line) => line.startsWith('warn'))).toEqual([]);
    await stop();
  });

  test('a resource that is not installed is absent', async () => {
    const { source, stop } = reflect({ group: 'nowhere.io', version: 'v1', plural: 'things' });
    await source.ready(new AbortController().signal);
    expect(source.health().state).toBe('absent');
    await stop();
  });

  test('the server’s own end of a watch is followed by the next one', async () => {
    const resource = await namespaced('ending');
    const { source, handler, stop } = reflect(resource, {
      timings: { watchMin: 1000, watchMax: 1000 },
    });
    await source.ready(new AbortController().signal);
    await systemClock.sleep(1_500);
    await create(resource, 'x');
    await handler.received('upserted', 'x');
    expect(source.health().state).toBe('synced');
    await stop();
  });
});
