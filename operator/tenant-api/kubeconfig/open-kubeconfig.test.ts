import { createServer, type Server, type ServerOptions } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { afterEach, beforeAll, expect, test } from 'vitest';
import type { Connection } from '../../kubernetes/connection.ts';
import type { AddressLookup } from '../../outbound/address-guard.ts';
import {
  base64,
  type KubeconfigParts,
  kubeconfigText,
  type TestCertificates,
  testCertificates,
} from '../testing/kubeconfigs.ts';
import { planDial } from './dial-plan.ts';
import { openConnection } from './open-kubeconfig.ts';
import { readForeignKubeconfig } from './read-kubeconfig.ts';

let certificates: TestCertificates;
beforeAll(async () => {
  certificates = await testCertificates('localhost');
});

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface TenantServer {
  readonly port: number;
  readonly requests: IncomingMessage[];
}

async function serve(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  options: ServerOptions = {},
): Promise<TenantServer> {
  const requests: IncomingMessage[] = [];
  const { certPem, keyPem } = certificates.serving;
  const server: Server = createServer({ cert: certPem, key: keyPem, ...options });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    requests.push(request);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: portOf(server), requests };
}

function portOf(server: { address(): unknown }): number {
  const address = server.address();
  if (typeof address === 'object' && address !== null && 'port' in address) {
    return Number(address.port);
  }
  throw new Error('not listening');
}

/** Every name leads here, in turn to these addresses. */
function leadsTo(...addresses: readonly string[]): AddressLookup {
  let next = 0;
  return (_name, _options, callback) => {
    const address = addresses[Math.min(next, addresses.length - 1)] ?? '';
    next += 1;
    callback(null, [{ address, family: address.includes(':') ? 6 : 4 }]);
  };
}

/** A connection as a tenant's kubeconfig gets it: to its own Service, which is on this machine. */
function connect(
  port: number,
  parts: KubeconfigParts = {},
  lookup: AddressLookup = leadsTo('127.0.0.1'),
  allowedHosts: readonly string[] = ['127.0.0.0/8'],
): Connection {
  const read = readForeignKubeconfig(
    kubeconfigText({
      ...parts,
      cluster: {
        server: `https://a.tenant-a.svc:${port}`,
        'certificate-authority-data': base64(certificates.authority),
        'tls-server-name': 'localhost',
        ...parts.cluster,
      },
    }),
  );
  if (read.kind === 'refused') throw new Error(read.reason);
  const plan = planDial(read.kubeconfig, {
    kind: 'tenant',
    namespace: 'tenant-a',
    name: 'a',
    allowedHosts,
    hostApi: '10.0.0.1:443',
    externalName: () => undefined,
  });
  if (plan.kind === 'refused') throw new Error(plan.reason);
  const connection = openConnection(read.kubeconfig, plan, lookup);
  closers.push(() => connection.close());
  return connection;
}

test('a tenant’s API gets its own credential, and nothing of ours', async () => {
  const server = await serve((_, response) => void response.end('{"ok":true}'));
  expect(await connect(server.port).request('/api/v1/nodes', { query: { limit: 1 } })).toEqual({
    kind: 'ok',
    status: 200,
    body: { ok: true },
  });
  const [request] = server.requests;
  expect(request?.url).toBe('/api/v1/nodes?limit=1');
  expect(request?.headers).toMatchObject({ authorization: 'Bearer reader-token' });
  expect(Object.keys(request?.headers ?? {}).toSorted()).toEqual([
    'accept',
    'authorization',
    'connection',
    'host',
    'user-agent',
  ]);
});

test('a client certificate is shown to the server that requests one', async () => {
  const server = await serve((_, response) => void response.end('{}'), {
    ca: certificates.authority,
    requestCert: true,
    rejectUnauthorized: true,
  });
  const { certPem, keyPem } = certificates.client;
  const connection = connect(server.port, {
    user: {
      token: undefined,
      'client-certificate-data': base64(certPem),
      'client-key-data': base64(keyPem),
    },
  });
  expect(await connection.request('/')).toMatchObject({ kind: 'ok' });
  expect(server.requests[0]?.headers.authorization).toBeUndefined();
});

test.each([
  ['another name', { 'tls-server-name': 'kubernetes' }],
  ['an authority that nobody knows', { 'certificate-authority-data': undefined }],
])('the credential is shown to somebody who is not the tenant’s API: %s', async (_, cluster) => {
  const server = await serve((__, response) => void response.end('{}'));
  // As if somebody had switched the check off for the whole process.
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  closers.push(async () => void delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
  expect(await connect(server.port, { cluster }).request('/')).toMatchObject({ kind: 'network' });
  expect(server.requests).toEqual([]);
});

test('a redirect leads the operator elsewhere', async () => {
  const elsewhere = await serve((_, response) => void response.end('{}'));
  const server = await serve((_, response) => {
    response.writeHead(302, { location: `https://localhost:${elsewhere.port}/` }).end();
  });
  expect(await connect(server.port).request('/')).toMatchObject({ kind: 'status', code: 302 });
  expect(elsewhere.requests).toEqual([]);
});

test('a proxy of the environment sees the credential', async () => {
  const connections: unknown[] = [];
  const proxy = createTcpServer((socket) => {
    connections.push(socket);
    socket.destroy();
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  closers.push(() => new Promise((resolve) => proxy.close(resolve)));
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY']) {
    process.env[name] = `http://127.0.0.1:${portOf(proxy)}`;
    closers.push(async () => void delete process.env[name]);
  }
  const server = await serve((_, response) => void response.end('{}'));
  expect(await connect(server.port).request('/')).toMatchObject({ kind: 'ok' });
  expect(connections).toEqual([]);
});

test('a name that turns to the metadata service after a good answer is not dialled', async () => {
  const server = await serve((_, response) => {
    response.writeHead(200, { connection: 'close' }).end('{}');
  });
  const connection = connect(server.port, {}, leadsTo('127.0.0.1', '169.254.169.254'));
  expect(await connection.request('/')).toMatchObject({ kind: 'ok' });
  expect(await connection.request('/')).toMatchObject({
    kind: 'network',
    message: expect.stringContaining('address not allowed: link-local or cloud metadata'),
  });
});

test('the Service of a tenant cluster is the operator’s own machine', async () => {
  const server = await serve((_, response) => void response.end('{}'));
  const connection = connect(server.port, {}, leadsTo('127.0.0.1'), []);
  expect(await connection.request('/')).toMatchObject({
    kind: 'network',
    message: expect.stringContaining('the operator’s own machine'),
  });
  expect(server.requests).toEqual([]);
});

test('an endless answer, or one event without an end, fills the memory', async () => {
  const junk = Buffer.alloc(1024 * 1024, 'x');
  const server = await serve((_, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(junk));
    };
    response.on('drain', more);
    more();
  });
  const connection = connect(server.port);
  expect(await connection.request('/')).toMatchObject({
    kind: 'network',
    message: expect.stringContaining('UND_ERR_RES_EXCEEDED_MAX_SIZE'),
  });
  const watch = await connection.stream('/', { signal: new AbortController().signal });
  if (watch.kind !== 'ok') throw new Error('no stream');
  const first = watch.lines[Symbol.asyncIterator]().next();
  await expect(first).rejects.toThrow('a line is too long');
});

test('a server that takes connections and says nothing holds more than its own sockets', async () => {
  const sockets = new Set<Socket>();
  const silent = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const connection = connect(portOf(silent));
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => silent.close(resolve));
  });
  const requested = Array.from({ length: 40 }, () => connection.request('/', { timeoutMs: 500 }));
  for (const outcome of await Promise.all(requested)) {
    expect(outcome).toEqual({ kind: 'network', message: 'no complete answer within 500 ms' });
  }
  expect(sockets.size).toBeLessThanOrEqual(2);
});
