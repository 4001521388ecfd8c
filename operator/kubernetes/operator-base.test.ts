import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { Connection } from './connection.ts';
import {
  createOperatorHost,
  type FinalizedObject,
  type OperatorHost,
  type OperatorComponent,
} from './operator-base.ts';
import { identify, metadataOf, type ObjectIdentity, resourcePath } from './resource.ts';
import type { ApiResource } from './source.ts';
import { type CapturingLogger, createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { createManualClock, type ManualClock } from './testing/manual-clock.ts';
import { createRecordingHandler } from './testing/recording-handler.ts';
import { type ScriptedApiServer, startScriptedApiServer } from './testing/scripted-api-server.ts';
import { WIDGET_CRD, WIDGETS, widget } from './testing/widget.ts';

// One test for each known defect of the base class with client-node 2.

const PODS = { group: '', version: 'v1', plural: 'pods' } as const;

/** The changes that a source reported: `ADDED x`, `MODIFIED x`, `DELETED x`, in order. */
interface Watched {
  readonly events: readonly string[];
  readonly until: (holds: () => boolean) => Promise<void>;
  /** Resolves when the operator has started. */
  readonly started: Promise<void>;
}

/** Watches a resource in an operator and starts it. */
function watchIn(host: OperatorHost, ...resources: readonly ApiResource[]): Watched {
  const handler = createRecordingHandler<ObjectIdentity>();
  for (const resource of resources) host.add(host.watch(resource, identify, handler));
  return {
    get events() {
      return handler.changes.map(({ kind, object, previous }) => {
        const upserted = previous === undefined ? 'ADDED' : 'MODIFIED';
        return `${kind === 'deleted' ? 'DELETED' : upserted} ${object.name}`;
      });
    },
    until: (holds) => handler.until(holds),
    started: host.start(),
  };
}

let server: ScriptedApiServer;
let connection: Connection;
let logger: CapturingLogger;
let operator: OperatorHost;

function createOperator(clock: ManualClock | typeof systemClock = systemClock): OperatorHost {
  return createOperatorHost({ connection, clock, random: () => 0, logger });
}

beforeEach(async () => {
  server = await startScriptedApiServer();
  connection = new Connection(server.kubeConfig);
  logger = createCapturingLogger();
  operator = createOperator();
});

afterEach(async () => {
  await operator.close();
  await connection.close();
  await server.until(() => server.openSockets === 0);
  await server.close();
});

const pod = (name: string, namespace = 'a') => ({ namespace, name });
const watches = (count: number) => server.until(() => server.openWatches === count);

describe('loading', () => {
  test('the CommonJS base loads beside the ES module client, without a warning, and a stop exits with 0', () => {
    const script = `
      import { createOperatorHost } from './operator-base.ts';
      import { Connection } from './connection.ts';
      import { plainKubeConfig } from './testing/scripted-api-server.ts';
      import { systemClock } from '../telemetry/system-clock.ts';
      const quiet = () => {};
      const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
      const connection = new Connection(plainKubeConfig('http://127.0.0.1:9'));
      const operator = createOperatorHost({ connection, clock: systemClock, random: Math.random, logger });
      operator.add(operator.watch({ group: '', version: 'v1', plural: 'pods' }, () => undefined, {}));
      const starting = operator.start().catch(() => console.log('start given up'));
      setTimeout(async () => {
        await operator.close();
        await starting;
        await connection.close();
        console.log('stopped');
      }, 50);
    `;
    const ran = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect(ran).toMatchObject({ status: 0, stderr: '', stdout: 'start given up\nstopped\n' });
  });
});

describe('lifecycle', () => {
  test('start runs the parts and waits for them, close stops them', async () => {
    const log: string[] = [];
    const part: OperatorComponent = {
      run: async (signal) => {
        log.push('running');
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve, { once: true });
        });
        log.push('ended');
      },
      ready: () => {
        log.push('ready');
        return Promise.resolve();
      },
    };
    operator.add(part);
    await operator.start();
    await operator.close();
    expect(log).toEqual(['running', 'ready', 'ended']);
  });

  test('a part that fails stops the others and comes out of close', async () => {
    const broken = createOperator();
    broken.add({ run: () => Promise.reject(new Error('part broke')) });
    let stopped = false;
    broken.add({
      run: async (signal) => {
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve, { once: true });
        });
        stopped = true;
      },
    });
    await broken.start();
    await expect(broken.close()).rejects.toThrow('part broke');
    expect(stopped).toBe(true);
  });
});

describe('watching', () => {
  test('a resource that stays quiet for minutes does not end the process or the watch', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const quiet = createOperator(clock);
    const watched = watchIn(quiet, PODS);
    await watched.started;
    for (let round = 0; round < 4; round += 1) {
      const before = server.requests.length;
      await clock.sleeper((ms) => ms === 90_000);
      await clock.advance(90_000);
      await server.seen(({ kind }) => kind === 'watch', before);
    }
    await watches(1);
    server.put(pod('y'));
    await watched.until(() => watched.events.includes('ADDED y'));
    await quiet.close();
  });

  test('a server that is not there yet, or cuts the watch, does not end the process', async () => {
    server.next('list', { kind: 'answer', code: 503 });
    server.next('watch', { kind: 'answer', code: 503 });
    server.next('watch', { kind: 'cut' });
    const watched = watchIn(operator, PODS);
    await watched.started;
    await watches(1);
    server.cutWatches();
    server.put(pod('x'));
    await watched.until(() => watched.events.includes('ADDED x'));
  });

  test('an expired version in the stream leads to a list instead of being swallowed', async () => {
    const watched = watchIn(operator, PODS);
    await watched.started;
    await watches(1);
    server.silently(() => server.put(pod('x')));
    const object = { kind: 'Status', code: 410, reason: 'Expired' };
    server.write(`${JSON.stringify({ type: 'ERROR', object })}\n`);
    await watched.until(() => watched.events.includes('ADDED x'));
  });

  test('what is deleted while disconnected is a DELETED event, and what stays is not added again', async () => {
    server.put(pod('goes'));
    server.put(pod('stays'));
    const watched = watchIn(operator, PODS);
    await watched.started;
    await watches(1);
    server.next('watch', { kind: 'hold' });
    const before = server.requests.length;
    server.cutWatches();
    await server.seen(({ kind }) => kind === 'watch', before);
    server.remove('a', 'goes');
    server.compact();
    server.release();
    await watched.until(() => watched.events.includes('DELETED goes'));
    expect(watched.events).toEqual(['ADDED goes', 'ADDED stays', 'DELETED goes']);
  });

  test('an object created again under its name is deleted and added, not modified', async () => {
    server.put({ ...pod('x'), uid: 'old' });
    const watched = watchIn(operator, PODS);
    await watched.started;
    await watched.until(() => watched.events.length === 1);
    server.remove('a', 'x');
    server.put({ ...pod('x'), uid: 'new' });
    await watched.until(() => watched.events.length === 3);
    expect(watched.events).toEqual(['ADDED x', 'DELETED x', 'ADDED x']);
  });

  test('two watches of one kind in two namespaces are both ended by close', async () => {
    const both = createOperator();
    await watchIn(both, { ...PODS, namespace: 'a' }, { ...PODS, namespace: 'b' }).started;
    await watches(2);
    await both.close();
    await watches(0);
  });

  test('closing during the pause before a new attempt does not open the watch again', async () => {
    const clock = createManualClock();
    const paused = createOperator(clock);
    server.always('list', { kind: 'answer', code: 503, headers: { 'Retry-After': '5' } });
    const { started } = watchIn(paused, PODS);
    await clock.sleeper((ms) => ms === 5_000);
    await Promise.all([paused.close(), expect(started).rejects.toThrow('aborted')]);
    const before = server.requests.length;
    await clock.advance(60_000);
    expect(server.requests).toHaveLength(before);
    expect(clock.sleepers).toBe(0);
  });
});

describe('finalizers on a real API server', () => {
  const cluster = useTestCluster();
  const FINALIZER = 'test.meterfeed.io/retire';
  let real: Connection;
  let finalizers: OperatorHost['finalizers'];

  beforeEach(async () => {
    await cluster.installCRDs(WIDGET_CRD);
    real = connectWith(cluster.kubeconfig);
    const options = { connection: real, clock: systemClock, random: Math.random, logger };
    ({ finalizers } = createOperatorHost(options));
  });

  afterEach(async () => {
    await real.close();
  });

  async function get(name: string): Promise<unknown> {
    const outcome = await real.request(resourcePath(WIDGETS, name));
    return outcome.kind === 'ok' ? outcome.body : undefined;
  }

  async function finalizersOf(name: string): Promise<unknown> {
    return metadataOf(await get(name))['finalizers'];
  }

  /** The object as a controller stores it. */
  async function seen(name: string): Promise<FinalizedObject> {
    const identity = identify(await get(name));
    if (identity === undefined) throw new Error(`no such widget: "${name}"`);
    return { ...identity, finalizers: [await finalizersOf(name)].flat().filter(isText) };
  }

  async function create(name: string): Promise<FinalizedObject> {
    await cluster.call('POST', resourcePath(WIDGETS), widget(name));
    return await seen(name);
  }

  test('a finalizer is added once, and the others of the object stay', async () => {
    await create('base-added');
    await real.request(resourcePath(WIDGETS, 'base-added'), {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: ['test.meterfeed.io/theirs'] } },
    });
    expect(await finalizers.add(WIDGETS, await seen('base-added'), FINALIZER)).toEqual({
      kind: 'done',
    });
    const both = ['test.meterfeed.io/theirs', FINALIZER];
    expect(await finalizersOf('base-added')).toEqual(both);
    const { resourceVersion } = await seen('base-added');
    await finalizers.add(WIDGETS, await seen('base-added'), FINALIZER);
    expect(await seen('base-added')).toMatchObject({ resourceVersion, finalizers: both });
  });

  test('a stale write does not take away another controller’s finalizer', async () => {
    const stale = await create('base-guarded');
    await real.request(resourcePath(WIDGETS, 'base-guarded'), {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: ['test.meterfeed.io/theirs'] } },
    });
    expect((await finalizers.add(WIDGETS, stale, FINALIZER)).kind).toBe('again');
    expect(await finalizersOf('base-guarded')).toEqual(['test.meterfeed.io/theirs']);
  });

  test('a deleted object stays until its finalizer is removed, and one that is gone is no failure', async () => {
    await finalizers.add(WIDGETS, await create('base-going'), FINALIZER);
    await cluster.call('DELETE', resourcePath(WIDGETS, 'base-going'));
    const deleting = await seen('base-going');
    expect(await finalizers.remove(WIDGETS, deleting, FINALIZER)).toEqual({ kind: 'done' });
    expect(await get('base-going')).toBeUndefined();
    expect(await finalizers.remove(WIDGETS, deleting, FINALIZER)).toEqual({ kind: 'done' });
    expect(await finalizers.add(WIDGETS, deleting, 'test.meterfeed.io/b')).toEqual({
      kind: 'done',
    });
  });

  test('a finalizer of an object that is not being deleted is removed too', async () => {
    await finalizers.add(WIDGETS, await create('base-outcomes'), FINALIZER);
    const removed = await finalizers.remove(WIDGETS, await seen('base-outcomes'), FINALIZER);
    expect(removed).toEqual({ kind: 'done' });
    expect(await finalizersOf('base-outcomes')).toBeUndefined();
  });

  test('a write that is refused is a failure that says why', async () => {
    const object = await create('base-refused');
    const outcome = await finalizers.add(WIDGETS, object, 'not a finalizer');
    expect(outcome).toMatchObject({ kind: 'failed', reason: expect.stringContaining('HTTP 422') });
  });
});

function isText(value: unknown): value is string {
  return typeof value === 'string';
}
