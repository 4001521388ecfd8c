import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CoreV1Api } from '@kubernetes/client-node';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Connection, readLines } from './connection.ts';
import { loadKubeConfig } from './kube-config.ts';
import { describeFailure, statusFailure } from './outcome.ts';
import {
  plainKubeConfig,
  type ScriptedApiServer,
  startScriptedApiServer,
} from './testing/scripted-api-server.ts';

const PODS = '/api/v1/pods';
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

describe('connection', () => {
  test('typed and raw calls one after another share a socket instead of opening one each', async () => {
    server.put({ namespace: 'a', name: 'x' });
    const core = connection.client(CoreV1Api);
    for (let round = 0; round < 10; round += 1) {
      expect((await core.listPodForAllNamespaces()).items).toHaveLength(1);
      expect((await connection.request(PODS)).kind).toBe('ok');
    }
    expect(server.acceptedSockets).toBeLessThanOrEqual(2);
  });

  test('a hundred open watches do not starve requests', async () => {
    const stop = new AbortController();
    const streams = await Promise.all(
      Array.from({ length: 100 }, () =>
        connection.stream(PODS, { query: { watch: true }, signal: stop.signal }),
      ),
    );
    expect(streams.every((stream) => stream.kind === 'ok')).toBe(true);
    expect((await connection.request(PODS)).kind).toBe('ok');
    stop.abort();
    await server.until(() => server.openWatches === 0);
  });

  test('close leaves no socket open, watches included', async () => {
    const never = new AbortController();
    await connection.stream(PODS, { query: { watch: true }, signal: never.signal });
    await connection.request(PODS);
    await connection.close();
    await server.until(() => server.openSockets === 0);
    expect(await connection.request(PODS)).toMatchObject({ kind: 'network' });
  });

  test('an aborted stream ends its loop and frees its socket', async () => {
    const stop = new AbortController();
    const stream = await connection.stream(PODS, { query: { watch: true }, signal: stop.signal });
    if (stream.kind !== 'ok') throw new Error(describeFailure(stream));
    const reading = Array.fromAsync(stream.lines);
    stop.abort();
    await expect(reading).rejects.toThrow('abort');
    await server.until(() => server.openSockets === 0);
  });

  test('an abort before anybody reads the stream is no unhandled error', async () => {
    const stop = new AbortController();
    await connection.stream(PODS, { query: { watch: true }, signal: stop.signal });
    stop.abort();
    await server.until(() => server.openSockets === 0);
  });

  test('a refused stream whose answer never ends costs the time-out, not for ever', async () => {
    const stalling = createServer((_request, response) => {
      response.writeHead(503);
      response.write('{');
    });
    await new Promise<void>((resolve) => {
      stalling.listen(0, '127.0.0.1', resolve);
    });
    const address = stalling.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const kubeConfig = plainKubeConfig(`http://127.0.0.1:${address.port}`);
    const stalled = new Connection(kubeConfig);
    const { signal } = new AbortController();
    expect(await stalled.stream('/', { signal, timeoutMs: 50 })).toEqual({
      kind: 'network',
      message: 'no complete answer within 50 ms',
    });
    await stalled.close();
    stalling.closeAllConnections();
    stalling.close();
  });

  test('a server that never answers costs the time-out, not for ever', async () => {
    server.next('list', { kind: 'hold' });
    expect(await connection.request(PODS, { timeoutMs: 50 })).toEqual({
      kind: 'network',
      message: 'no complete answer within 50 ms',
    });
  });

  test('an abort by the caller differs from a time-out', async () => {
    server.next('list', { kind: 'hold' });
    const stop = new AbortController();
    const outcome = connection.request(PODS, { signal: stop.signal });
    await server.seen(() => true);
    stop.abort();
    expect(await outcome).toEqual({ kind: 'network', message: 'aborted' });
  });

  test('a refused connection is a value that names the address', async () => {
    const url = server.url;
    await server.close();
    const outcome = await connection.request(PODS);
    expect(outcome).toMatchObject({ kind: 'network' });
    expect(JSON.stringify(outcome)).toContain(`ECONNREFUSED ${new URL(url).host}`);
  });

  test('a Status answer gives code, reason, message and Retry-After', async () => {
    const body = { kind: 'Status', reason: 'TooManyRequests', message: 'slow\ndown' };
    server.next('list', { kind: 'answer', code: 429, body, headers: { 'Retry-After': '7' } });
    expect(await connection.request(PODS)).toEqual({
      kind: 'status',
      code: 429,
      reason: 'TooManyRequests',
      message: 'slow down',
      retryAfterMs: 7000,
    });
  });

  test.each([
    ['plain text', 'token=hunter2 is not welcome'],
    ['foreign JSON', { message: 'token=hunter2' }],
  ])('an error body of %s is never quoted: it could be anyone’s text', async (_, body) => {
    server.next('list', { kind: 'answer', code: 502, body });
    const outcome = await connection.request(PODS);
    expect(outcome).toMatchObject({ kind: 'status', code: 502, reason: '' });
    expect(JSON.stringify(outcome)).not.toContain('hunter2');
  });

  test.each([
    ['/apis/metrics.k8s.io/v1beta1/pods', 'metrics.k8s.io; install metrics-server'],
    [
      '/apis/meterfeed.io/v1alpha1/priceBooks',
      'meterfeed.io; apply the CustomResourceDefinitions of meterfeed',
    ],
    ['/apis/example.com/v1/things', 'example.com; install what serves it'],
  ])('404 without a Status for %s says what to install, not "no message"', (path, fix) => {
    expect(statusFailure(404, '404 page not found', { path })).toEqual({
      kind: 'status',
      code: 404,
      reason: '',
      message: `the API server does not serve ${fix}`,
    });
  });

  test('a group that is not served is named, not "no message"', async () => {
    server.next('list', { kind: 'answer', code: 404, body: '404 page not found' });
    const { message } = (await connection.request(PODS)) as { readonly message?: string };
    expect(message).toMatch(/^the API server does not serve /);
  });

  test('the token goes out in the header and shows up in no failure', async () => {
    const secret = 'canary-7f3a';
    const guarded = new Connection(plainKubeConfig(server.url, secret));
    server.next('list', { kind: 'answer', code: 401 });
    const refused = await guarded.request(PODS);
    server.next('list', { kind: 'cut' });
    const cut = await guarded.request(PODS);
    await guarded.close();
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${secret}`);
    expect(JSON.stringify([refused, cut])).not.toContain(secret);
  });

  test('a server that quotes the token it was shown does not get it into a log', async () => {
    const secret = `canary-${'7f3a'.repeat(200)}`;
    const guarded = new Connection(plainKubeConfig(server.url, secret));
    const body = { kind: 'Status', reason: 'Unauthorized', message: `no such token: ${secret}` };
    server.next('list', { kind: 'answer', code: 401, body });
    const refused = await guarded.request(PODS);
    server.next('list', { kind: 'answer', code: 401, body });
    const unstreamed = await guarded.stream(PODS, { signal: new AbortController().signal });
    await guarded.close();
    expect(refused).toMatchObject({ kind: 'status', code: 401 });
    expect(JSON.stringify([refused, unstreamed])).not.toContain('canary');
  });

  test('a redirect is a failure, not followed with our token', async () => {
    const headers = { Location: 'http://127.0.0.1:1/' };
    server.next('list', { kind: 'answer', code: 302, headers });
    expect(await connection.request(PODS)).toMatchObject({ kind: 'status', code: 302 });
  });

  test('a path in the server address is kept, as API proxies need it', async () => {
    const behind = new Connection(plainKubeConfig(`${server.url}/k8s/c-1/`));
    await behind.request('/api/v1/pods');
    await behind.close();
    expect(server.requests[0]?.path).toBe('/k8s/c-1/api/v1/pods');
  });
});

describe('certificates', () => {
  test('a renewed CA builds the pool again, an unchanged one does not', async () => {
    const sockets = new Set<number>();
    const plain = createServer((request, response) => {
      sockets.add(request.socket.remotePort ?? 0);
      response.end('{}');
    });
    await new Promise<void>((resolve) => {
      plain.listen(0, '127.0.0.1', resolve);
    });
    const address = plain.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const caFile = join(mkdtempSync(join(tmpdir(), 'meterfeed-ca-')), 'ca.crt');
    writeFileSync(caFile, 'first');
    const kubeConfig = plainKubeConfig(`http://127.0.0.1:${address.port}`);
    const [cluster] = kubeConfig.getClusters();
    kubeConfig.loadFromOptions({
      clusters: [{ ...cluster, caFile }],
      users: kubeConfig.getUsers(),
      contexts: kubeConfig.getContexts(),
      currentContext: kubeConfig.getCurrentContext(),
    });
    const renewed = new Connection(kubeConfig);
    for (let round = 0; round < 5; round += 1) await renewed.request('/');
    const before = sockets.size;
    expect(before).toBeLessThanOrEqual(2);
    writeFileSync(caFile, 'second');
    await renewed.request('/');
    expect(sockets.size).toBe(before + 1);
    await renewed.close();
    plain.closeAllConnections();
    plain.close();
  });
});

describe('kubeconfig', () => {
  const directory = mkdtempSync(join(tmpdir(), 'meterfeed-kubeconfig-'));
  const valid = (server: string): string =>
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server } }],
      users: [{ name: 'u', user: { token: 'canary-token' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    });

  test.each([
    ['a missing file', undefined, undefined, 'ENOENT'],
    ['no YAML', 'token: [canary-token', undefined, 'not a valid kubeconfig'],
    ['an empty file', '', undefined, 'not a valid kubeconfig'],
    ['an unknown context', valid('https://h'), 'other', 'no context "other"'],
    ['a bad address', valid('not a url'), undefined, 'not a URL'],
  ])('%s is refused with a reason that quotes no credential', (name, text, context, reason) => {
    const path = join(directory, name);
    if (text !== undefined) writeFileSync(path, text);
    const outcome = loadKubeConfig({
      kind: 'file',
      path,
      context,
    });
    expect(outcome).toMatchObject({ kind: 'invalid', reason: expect.stringContaining(reason) });
    expect(JSON.stringify(outcome)).toContain(path);
    expect(JSON.stringify(outcome)).not.toContain('canary-token');
  });

  test('in-cluster access reads the mounted token and brackets an IPv6 host', async () => {
    const outcome = loadKubeConfig({ kind: 'in-cluster', host: 'fd00::1', port: '443' });
    if (outcome.kind !== 'loaded') throw new Error(outcome.reason);
    expect(outcome.kubeConfig.getCurrentCluster()?.server).toBe('https://[fd00::1]:443');
  });

  test('in-cluster access without an address says what to set', () => {
    const outcome = loadKubeConfig({ kind: 'in-cluster', host: '', port: '' });
    expect(outcome).toMatchObject({
      kind: 'invalid',
      reason: expect.stringContaining('KUBECONFIG'),
    });
  });
});

describe('lines', () => {
  async function* chunks(...parts: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
    for (const part of parts) yield typeof part === 'string' ? Buffer.from(part) : part;
  }

  test('half a line at the end is not taken for a whole event', async () => {
    expect(await Array.fromAsync(readLines(chunks('{"a":1}\n{"b"')))).toEqual(['{"a":1}']);
  });

  test('a character cut in two by the network stays whole', async () => {
    const bytes = Buffer.from('{"name":"Zürich"}\n');
    for (let cut = 1; cut < bytes.length; cut += 1) {
      const parts = chunks(bytes.subarray(0, cut), bytes.subarray(cut));
      expect(await Array.fromAsync(readLines(parts))).toEqual(['{"name":"Zürich"}']);
    }
  });
});
