import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import {
  type ScriptedApiServer,
  startScriptedApiServer,
} from '../kubernetes/testing/scripted-api-server.ts';
import { NODE_SETTINGS } from '../metering/meters/testing/objects.ts';
import { createObservation } from '../metering/timelines/observation.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import { type PodView, projectPod } from '../metering/timelines/pod.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { KindWatch } from './kind-watch.ts';
import { ApiLimiter, FirstLists, DEFAULT_LIMITS } from './limits.ts';
import { SharedMemory } from './memory.ts';

/** More than one page of a list. */
const MANY = 600;

let server: ScriptedApiServer;
let connection: Connection;

beforeEach(async () => {
  server = await startScriptedApiServer();
  connection = new Connection(server.kubeConfig);
});

afterEach(async () => {
  await connection.close();
  await server.close();
});

/** The watch of the pods of a tenant cluster that the journal knows nothing of. */
function watchPods(adjust?: (next: PodView) => PodView, reported: string[] = []) {
  const { pods } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const watch: KindWatch<PodView> = new KindWatch({
    resource: { group: '', version: 'v1', plural: 'pods' },
    project: projectPod,
    timelines: pods,
    resume: undefined,
    adjust,
    limiter: new ApiLimiter({
      limits: DEFAULT_LIMITS,
      now: () => systemClock.monotonic(),
      onExceeded: (reason) => reported.push(reason),
      firstLists: new FirstLists(),
      memory: new SharedMemory(),
      isListed: () => watch.listed,
      states: () => 0,
    }),
    clock: systemClock,
    random: () => 0.5,
    logger: createCapturingLogger(),
  });
  const names = () =>
    [...pods.namespaces()].flatMap(([, timelines]) => [...timelines].map(({ name }) => name));
  return { pods, watch, names };
}

test('labels nested 20,000 deep overflow no stack: the API is left alone, and what was known stays', async () => {
  const { nodes } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
  });
  const reported: string[] = [];
  const logger = createCapturingLogger();
  const watch: KindWatch<NodeView> = new KindWatch({
    // The server of these tests has one collection, of whatever it is given.
    resource: { group: '', version: 'v1', plural: 'pods' },
    project: projectNode,
    timelines: nodes,
    resume: undefined,
    limiter: new ApiLimiter({
      limits: DEFAULT_LIMITS,
      now: () => systemClock.monotonic(),
      onExceeded: (reason) => reported.push(reason),
      firstLists: new FirstLists(),
      memory: new SharedMemory(),
      isListed: () => watch.listed,
      states: () => 0,
    }),
    clock: systemClock,
    random: () => 0.5,
    logger,
  });
  server.put({ namespace: '', name: 'n', uid: 'u' });
  watch.start(connection);
  await vi.waitUntil(() => watch.listed && server.openWatches === 1);
  const labels = '{"a":'.repeat(20_000) + '1' + '}'.repeat(20_000);
  const event = (name: string, version: number) =>
    `{"type":"MODIFIED","object":{"metadata":{"name":"${name}","uid":"u","resourceVersion":"${version}","labels":${labels}}}}\n`;
  // A second one that is the same is compared with the first.
  server.write(event('n', 201) + event('other', 202) + event('other', 203));
  server.put({ namespace: '', name: 'm', uid: 'v' });
  await vi.waitUntil(() => watch.find('', 'm') !== undefined);
  expect(reported).toEqual([
    'pods "n": metadata.labels: not a map of text',
    'pods "other": metadata.labels: not a map of text',
    'pods "other": metadata.labels: not a map of text',
  ]);
  expect(watch.find('', 'n')?.labels).toEqual({});
  expect(watch.find('', 'other')).toBeUndefined();
  expect(logger.lines.filter((line) => line.includes('threw'))).toEqual([]);
  watch.stop('end of the test');
  await watch.idle();
});

describe('a first list that was cut short', () => {
  test('proves nothing: what it brought is forgotten, and costs nobody anything when the list is whole', async () => {
    for (let index = 0; index < MANY; index += 1) {
      server.put({ namespace: 'default', name: `ghost-${index}` });
    }
    const { pods, watch, names } = watchPods();
    const first = server.seen(({ kind }) => kind === 'list');
    watch.start(connection);
    await first;
    server.always('list', { kind: 'hold' });
    await vi.waitUntil(() => pods.size > 0);
    watch.stop('more than it may take up');
    expect(names()).toEqual([]);
    expect(watch.listed).toBe(false);

    for (let index = 0; index < MANY; index += 1) server.remove('default', `ghost-${index}`);
    server.put({ namespace: 'default', name: 'p' });
    server.always('list', undefined);
    watch.start(connection);
    await vi.waitUntil(() => watch.listed);
    expect(names()).toEqual(['p']);
    watch.stop('end of the test');
    await watch.idle();
  });

  test('of one that had been whole before takes nothing back', async () => {
    server.put({ namespace: 'default', name: 'p' });
    const { watch, names } = watchPods();
    watch.start(connection);
    await vi.waitUntil(() => watch.listed);
    watch.stop('its Secret is gone');
    expect(names()).toEqual(['p']);
    await watch.idle();
  });
});

test('a stretch that no watch covered is forgotten with the connection on which a list ended it', async () => {
  server.put({ namespace: 'default', name: 'p' });
  const { watch } = watchPods();
  watch.start(connection);
  await vi.waitUntil(() => watch.listed);
  const [stretch] = watch.health().unseen ?? [];
  expect(stretch).toMatchObject({ from: 0 });
  watch.stop('its Secret is gone');
  expect(watch.health().unseen).toEqual([stretch]);
  watch.start(connection);
  expect(watch.health().unseen).toEqual([stretch]);
  watch.stop('end of the test');
  await watch.idle();
});

describe('an object whose change nobody can take in', () => {
  test('leaves its API alone with the reason, and the next list reports it once more', async () => {
    const reported: string[] = [];
    let broken = true;
    const { pods, watch, names } = watchPods((next) => {
      if (broken && next.name === 'bad') throw new RangeError('Maximum call stack size exceeded');
      return next;
    }, reported);
    server.put({ namespace: 'default', name: 'good' });
    watch.start(connection);
    await vi.waitUntil(() => watch.listed && server.openWatches === 1);
    server.put({ namespace: 'default', name: 'bad' });
    await vi.waitUntil(() => reported.length > 0);
    expect(reported).toEqual([
      'pods "default/bad" cannot be applied: Maximum call stack size exceeded',
    ]);
    expect(names()).toEqual(['good']);
    // A restart must not go on behind what was never taken in.
    expect(watch.point(systemClock.now())?.[1]).not.toMatchObject({
      resourceVersion: expect.anything(),
    });

    watch.stop('left alone');
    server.remove('default', 'good');
    broken = false;
    watch.start(connection);
    await vi.waitUntil(() => names().includes('bad') && watch.health().state === 'synced');
    await vi.waitUntil(() => watch.point(systemClock.now())?.[1].resourceVersion !== undefined);
    const gone = [...pods.inNamespace('default')].filter((timeline) => timeline.gone);
    expect(gone.map(({ name }) => name)).toEqual(['good']);
    watch.stop('end of the test');
    await watch.idle();
  });
});

describe('what arrives while its window is being measured', () => {
  test('changes what was measured already, or is lost', async () => {
    const { watch, names } = watchPods();
    server.put({ namespace: 'a', name: 'first', uid: '1' });
    watch.start(connection);
    await vi.waitUntil(() => watch.listed && server.openWatches === 1);
    const before = watch.point(1);
    watch.retain(1);
    server.put({ namespace: 'a', name: 'second', uid: '2' });
    await vi.waitUntil(() => watch.find('a', 'second') !== undefined);
    expect(names()).toEqual(['first']);
    // A restart would not be told of it once more.
    expect(watch.point(Date.now())).toEqual(before);
    watch.release();
    expect(names()).toEqual(['first', 'second']);
    expect(watch.point(Date.now())).not.toEqual(before);
    watch.stop('end of the test');
    await watch.idle();
  });

  test('is forgotten when the watch is stopped meanwhile', async () => {
    const { watch, names } = watchPods();
    watch.start(connection);
    await vi.waitUntil(() => watch.listed && server.openWatches === 1);
    watch.retain(1);
    server.put({ namespace: 'a', name: 'second', uid: '2' });
    await vi.waitUntil(() => watch.find('a', 'second') !== undefined);
    watch.stop('its tenant cluster is not reachable');
    expect(watch.isQueueing).toBe(false);
    expect(names()).toEqual(['second']);
    await watch.idle();
  });

  test('of a first list is held until it is over, and never ends', async () => {
    const { watch, names } = watchPods();
    server.put({ namespace: 'a', name: 'first', uid: '1' });
    watch.retain(1);
    watch.start(connection);
    await vi.waitUntil(() => watch.listed);
    expect(watch.isQueueing).toBe(false);
    expect(names()).toEqual(['first']);
    watch.stop('end of the test');
    await watch.idle();
  });
});
