import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { type Connection, createConnection } from './connection.ts';
import { type ResourceEvent, ResourceEventType, type ResourceMeta } from './dot-i.ts';
import { identify, metadataOf } from './object-metadata.ts';
import { OperatorBase } from './operator-base.ts';
import type { OperatorPart } from './operator-host.ts';
import { isRawObject } from './outcome.ts';
import { resourcePath } from './paths.ts';
import type { RawObject } from './source.ts';
import { type CapturingLogger, createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { createManualClock, type ManualClock } from './testing/manual-clock.ts';
import { type ScriptedApiServer, startScriptedApiServer } from './testing/scripted-api-server.ts';
import { WIDGET_CRD, WIDGETS, widget } from './testing/widget.ts';

// One test for each row of what is known to go wrong in the base class under client-node 2.

type OnEvent = (event: ResourceEvent) => Promise<void>;

/** Lets tests call what is protected. */
class TestOperator extends OperatorBase {
  readonly events: string[] = [];
  readonly #waiting = new Set<() => void>();

  record = (event: ResourceEvent): Promise<void> => {
    this.events.push(`${event.type} ${event.meta.name}`);
    for (const check of this.#waiting) check();
    return Promise.resolve();
  };
  watchPods = (onEvent: OnEvent = this.record, namespace?: string): Promise<void> =>
    this.watchResource('', 'v1', 'pods', onEvent, namespace);
  watchWidgets = (onEvent: OnEvent): Promise<void> =>
    this.watchResource(WIDGETS.group, WIDGETS.version, WIDGETS.plural, onEvent);
  uri = (namespace?: string): string =>
    this.getCustomResourceApiUri('test.meterfeed.io', 'v1', 'widgets', namespace);
  setStatus = (meta: ResourceMeta, status: unknown) => this.setResourceStatus(meta, status);
  patchStatus = (meta: ResourceMeta, status: unknown) => this.patchResourceStatus(meta, status);
  finalize = (event: ResourceEvent, finalizer: string, action: OnEvent) =>
    this.handleResourceFinalizer(event, finalizer, action);
  register = () => this.registerCustomResourceDefinition();

  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!holds()) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }
}

let server: ScriptedApiServer;
let connection: Connection;
let logger: CapturingLogger;
let operator: TestOperator;

function createOperator(clock: ManualClock | typeof systemClock = systemClock): TestOperator {
  return new TestOperator({ connection, clock, random: () => 0, logger });
}

beforeEach(async () => {
  server = await startScriptedApiServer();
  connection = createConnection({ kubeConfig: server.kubeConfig });
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
      import { OperatorBase } from './operator-base.ts';
      import { createConnection } from './connection.ts';
      import { plainKubeConfig } from './testing/scripted-api-server.ts';
      import { systemClock } from '../telemetry/system-clock.ts';
      const quiet = () => {};
      const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet };
      const connection = createConnection({ kubeConfig: plainKubeConfig('http://127.0.0.1:9') });
      const operator = new OperatorBase({ connection, clock: systemClock, random: Math.random, logger });
      operator.add(operator.watch({ group: '', version: 'v1', plural: 'pods' }, () => undefined, {}));
      const starting = operator.start().catch(() => console.log('start given up'));
      setTimeout(async () => {
        operator.stop();
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
    const part: OperatorPart = {
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

describe('addresses', () => {
  test('begin with the server of the kubeconfig, not with "undefined"', () => {
    expect(operator.uri()).toBe(`${server.url}/apis/test.meterfeed.io/v1/widgets`);
    expect(operator.uri('n')).toBe(`${server.url}/apis/test.meterfeed.io/v1/namespaces/n/widgets`);
  });
});

describe('definitions', () => {
  test('are refused with the way that works instead of failing inside the client', async () => {
    await expect(operator.register()).rejects.toThrow('kubectl apply -k .');
  });
});

describe('watching', () => {
  test('a resource that stays quiet for minutes does not end the process or the watch', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const quiet = createOperator(clock);
    await quiet.watchPods(quiet.record);
    for (let round = 0; round < 4; round += 1) {
      const before = server.requests.length;
      await clock.sleeper((ms) => ms === 90_000);
      await clock.advance(90_000);
      await server.seen(({ kind }) => kind === 'watch', before);
    }
    await watches(1);
    server.put(pod('y'));
    await quiet.until(() => quiet.events.includes('ADDED y'));
    await quiet.close();
  });

  test('a server that is not there yet, or cuts the watch, does not end the process', async () => {
    server.next('list', { kind: 'answer', code: 503 });
    server.next('watch', { kind: 'answer', code: 503 });
    server.next('watch', { kind: 'cut' });
    await operator.watchPods();
    await watches(1);
    server.cutWatches();
    server.put(pod('x'));
    await operator.until(() => operator.events.includes('ADDED x'));
  });

  test('an expired version in the stream leads to a list instead of being swallowed', async () => {
    await operator.watchPods();
    await watches(1);
    server.silently(() => server.put(pod('x')));
    const object = { kind: 'Status', code: 410, reason: 'Expired' };
    server.write(`${JSON.stringify({ type: 'ERROR', object })}\n`);
    await operator.until(() => operator.events.includes('ADDED x'));
  });

  test('what is deleted while disconnected is a DELETED event, and what stays is not added again', async () => {
    server.put(pod('goes'));
    server.put(pod('stays'));
    await operator.watchPods();
    await watches(1);
    server.next('watch', { kind: 'hold' });
    const before = server.requests.length;
    server.cutWatches();
    await server.seen(({ kind }) => kind === 'watch', before);
    server.remove('a', 'goes');
    server.compact();
    server.release();
    await operator.until(() => operator.events.includes('DELETED goes'));
    expect(operator.events).toEqual(['ADDED goes', 'ADDED stays', 'DELETED goes']);
  });

  test('two watches of one kind in two namespaces are both ended by stop', async () => {
    const both = createOperator();
    await both.watchPods(both.record, 'a');
    await both.watchPods(both.record, 'b');
    await watches(2);
    both.stop();
    await watches(0);
    await both.close();
  });

  test('stop during the pause before a new attempt does not open the watch again', async () => {
    const clock = createManualClock();
    const paused = createOperator(clock);
    server.always('list', { kind: 'answer', code: 503, headers: { 'Retry-After': '5' } });
    const watching = paused.watchPods(paused.record);
    await clock.sleeper((ms) => ms === 5_000);
    paused.stop();
    await paused.close();
    await expect(watching).rejects.toThrow('aborted');
    const before = server.requests.length;
    await clock.advance(60_000);
    expect(server.requests).toHaveLength(before);
    expect(clock.sleepers).toBe(0);
  });
});

describe('events', () => {
  test('a handler that throws is logged and the event comes again', async () => {
    const clock = createManualClock();
    const stumbling = createOperator(clock);
    let attempts = 0;
    await stumbling.watchPods(async (event) => {
      attempts += 1;
      if (attempts === 1) throw new Error('stumbled');
      await stumbling.record(event);
    });
    await watches(1);
    server.put(pod('x'));
    await clock.sleeper((ms) => ms === 500);
    await clock.advance(500);
    await stumbling.until(() => stumbling.events.includes('ADDED x'));
    expect(logger.lines.some((line) => line.includes('pods: work threw'))).toBe(true);
    await stumbling.close();
  });

  test('a slow handler holds up neither other objects nor other kinds, and changes meanwhile are one event', async () => {
    let release = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    await operator.watchPods(async (event) => {
      await operator.record(event);
      if (event.meta.name === 'slow' && event.type === ResourceEventType.Added) await slow;
    });
    await watches(1);
    server.put(pod('slow'));
    await operator.until(() => operator.events.includes('ADDED slow'));
    for (let i = 0; i < 10; i += 1) server.put({ ...pod('slow'), i });
    server.put(pod('other'));
    await operator.until(() => operator.events.includes('ADDED other'));
    release();
    await operator.until(() => operator.events.length === 3);
    expect(operator.events).toEqual(['ADDED slow', 'ADDED other', 'MODIFIED slow']);
  });

  test('an object created again under its name is deleted and added, not modified', async () => {
    server.put({ ...pod('x'), uid: 'old' });
    await operator.watchPods();
    await watches(1);
    await operator.until(() => operator.events.length === 1);
    server.remove('a', 'x');
    server.put({ ...pod('x'), uid: 'new' });
    await operator.until(() => operator.events.length === 3);
    expect(operator.events).toEqual(['ADDED x', 'DELETED x', 'ADDED x']);
  });
});

describe('writing to a real API server', () => {
  const cluster = useTestCluster();
  const FINALIZER = 'test.meterfeed.io/retire';
  let real: Connection;
  let writer: TestOperator;

  beforeEach(async () => {
    await cluster.installCRDs(WIDGET_CRD);
    real = connectWith(cluster.kubeconfig);
    writer = new TestOperator({
      connection: real,
      clock: systemClock,
      random: Math.random,
      logger,
    });
    await writer.watchWidgets(writer.record);
  });

  afterEach(async () => {
    await writer.close();
    await real.close();
  });

  async function get(name: string): Promise<RawObject | undefined> {
    const outcome = await real.request(resourcePath(WIDGETS, name));
    return outcome.kind === 'ok' && isRawObject(outcome.body) ? outcome.body : undefined;
  }

  async function create(name: string): Promise<RawObject> {
    await cluster.call('POST', resourcePath(WIDGETS), widget(name));
    const object = await get(name);
    if (object === undefined) throw new Error('not created');
    return object;
  }

  function eventOf(object: RawObject): ResourceEvent {
    const identity = identify(object);
    if (identity === undefined) throw new Error('no identity');
    const { name, resourceVersion } = identity;
    const apiVersion = 'test.meterfeed.io/v1';
    const meta = { id: `widgets.${apiVersion}`, name, resourceVersion, apiVersion, kind: 'Widget' };
    return { meta, type: ResourceEventType.Modified, object };
  }

  const unreachable = async (): Promise<void> => {
    throw new Error('the delete action must not run');
  };

  test('a status is applied, whole, and the metadata afterwards comes back', async () => {
    const { meta } = eventOf(await create('base-status'));
    await writer.setStatus(meta, { a: 1, b: 2 });
    const after = await writer.patchStatus(meta, { a: 3 });
    expect((await get('base-status'))?.['status']).toEqual({ a: 3 });
    expect(after?.resourceVersion).not.toBe(meta.resourceVersion);
  });

  test('a refused status or finalizer is an error, not a resolved promise', async () => {
    const event = eventOf(await create('base-refused'));
    const gone = { ...event.meta, name: 'nowhere' };
    await expect(writer.setStatus(gone, {})).rejects.toThrow('no such object');
    await expect(writer.patchStatus(event.meta, { conditions: 'x' })).rejects.toThrow(
      '.status.conditions',
    );
    const elsewhere = { ...event, meta: gone };
    await expect(writer.finalize(elsewhere, FINALIZER, unreachable)).rejects.toThrow('HTTP 404');
  });

  test('a finalizer is added before anything else, and handled only when that is written', async () => {
    const event = eventOf(await create('base-added'));
    expect(await writer.finalize(event, FINALIZER, unreachable)).toBe(true);
    const after = await get('base-added');
    expect(after?.['metadata']).toMatchObject({ finalizers: [FINALIZER] });
    if (after === undefined) throw new Error('gone');
    expect(await writer.finalize(eventOf(after), FINALIZER, unreachable)).toBe(false);
  });

  test('a stale write does not take away another controller’s finalizer', async () => {
    const stale = eventOf(await create('base-guarded'));
    await real.request(resourcePath(WIDGETS, 'base-guarded'), {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: ['test.meterfeed.io/theirs'] } },
    });
    await expect(writer.finalize(stale, FINALIZER, unreachable)).rejects.toThrow('HTTP 409');
    expect((await get('base-guarded'))?.['metadata']).toMatchObject({
      finalizers: ['test.meterfeed.io/theirs'],
    });
  });

  test('a deleted object goes only after its delete action, and stays when that fails', async () => {
    await writer.finalize(eventOf(await create('base-going')), FINALIZER, unreachable);
    await cluster.call('DELETE', resourcePath(WIDGETS, 'base-going'));
    const deleting = await get('base-going');
    if (deleting === undefined) throw new Error('gone too early');
    const failing = writer.finalize(eventOf(deleting), FINALIZER, () =>
      Promise.reject(new Error('not yet')),
    );
    await expect(failing).rejects.toThrow('not yet');
    expect(await get('base-going')).toBeDefined();
    expect(await writer.finalize(eventOf(deleting), FINALIZER, () => Promise.resolve())).toBe(true);
    expect(await get('base-going')).toBeUndefined();
    await writer.until(() => writer.events.includes('DELETED base-going'));
  });

  test('controllers add and remove finalizers with outcomes instead of exceptions', async () => {
    const { signal } = new AbortController();
    const seen = identify(await create('base-outcomes'));
    if (seen === undefined) throw new Error('no identity');
    const fresh = { ...seen, finalizers: [] };
    expect(await writer.finalizers.add(WIDGETS, fresh, FINALIZER, signal)).toEqual({
      kind: 'done',
    });
    const conflict = await writer.finalizers.add(WIDGETS, fresh, 'test.meterfeed.io/b', signal);
    expect(conflict.kind).toBe('again');
    const added = identify(await get('base-outcomes'));
    if (added === undefined) throw new Error('no identity');
    const removed = await writer.finalizers.remove(
      WIDGETS,
      { ...added, finalizers: [FINALIZER] },
      FINALIZER,
      signal,
    );
    expect(removed).toEqual({ kind: 'done' });
    expect(metadataOf(await get('base-outcomes'))['finalizers']).toBeUndefined();
    await cluster.call('DELETE', resourcePath(WIDGETS, 'base-outcomes'));
    const onGone = await writer.finalizers.remove(
      WIDGETS,
      { ...added, finalizers: [FINALIZER] },
      FINALIZER,
      signal,
    );
    expect(onGone).toEqual({ kind: 'done' });
  });
});
