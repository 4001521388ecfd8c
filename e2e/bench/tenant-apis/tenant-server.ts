import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { HostileApi, TENANT_API_ATTACKS } from '../../hostile/attacks/tenant-api.ts';

/**
 * Stand-ins for the APIs of many tenant clusters, in a process of its own: good ones by the path
 * `/good/<number>`, ones that answer garbage by `/garbage/<number>`, ones that take the request and say
 * nothing by `/silent`, ones that attack in every way of the hostile suite, each in another one, by
 * `/hostile/<number>`, and a port that does not even answer the handshake. Arguments: certificate and
 * key, as JSON. Tells its parent the two ports.
 */
const { cert, key } = JSON.parse(process.argv[2] ?? '{}') as { cert: string; key: string };
const BORN = new Date(Date.now() - 86_400_000).toISOString().replace(/\.\d+Z$/, 'Z');
const BOOKMARK_MS = 20_000;
const NODES = 2;
const PODS = 10;
const JUNK = Buffer.alloc(64 * 1024, '{"items":[{}');

const server = createHttpsServer({ cert, key }, (request, response) => {
  response.on('error', () => undefined);
  const url = new URL(request.url ?? '/', 'https://stand-in');
  const [, kind = '', number = '0', ...rest] = url.pathname.split('/');
  if (kind === 'good') good(`/${rest.join('/')}`, number, url.searchParams, response);
  else if (kind === 'garbage') garbage(Number(number), request, response);
  else if (kind === 'hostile') {
    hostile(Number(number)).handle(request, response, `/${rest.join('/')}${url.search}`);
  }
});
server.on('tlsClientError', () => undefined);
server.on('clientError', (_error, socket) => socket.destroy());
// An accepted connection on which nothing is ever said.
const deaf = createServer((socket) => void socket.on('error', () => undefined).resume());
process.send?.({ port: await listen(server), deaf: await listen(deaf) });
process.on('disconnect', () => process.exit());

const attackers = new Map<number, HostileApi>();

/** Each of them in one way, all ways in turns. */
function hostile(number: number): HostileApi {
  const known = attackers.get(number);
  if (known !== undefined) return known;
  const { name = '' } = TENANT_API_ATTACKS[number % TENANT_API_ATTACKS.length] ?? {};
  const made = new HostileApi(number, [{ kind: 'tenant-api', name, seed: number }]);
  attackers.set(number, made);
  return made;
}

async function listen(one: Server): Promise<number> {
  one.listen(0, '127.0.0.1');
  await once(one, 'listening');
  return (one.address() as AddressInfo).port;
}

function good(
  path: string,
  tenant: string,
  query: URLSearchParams,
  response: ServerResponse,
): void {
  const found = collectionOf(path, tenant);
  if (found === undefined) {
    send(response, 404, { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 });
    return;
  }
  const { kind, items } = found;
  if (query.get('watch') === 'true') {
    response.writeHead(200, { 'content-type': 'application/json' });
    const object = { kind, apiVersion: 'v1', metadata: { resourceVersion: '1000' } };
    const bookmark = setInterval(() => {
      response.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
    }, BOOKMARK_MS);
    response.flushHeaders();
    response.once('close', () => clearInterval(bookmark));
    return;
  }
  const metadata = { resourceVersion: '1000' };
  send(response, 200, { kind: `${kind}List`, apiVersion: 'v1', metadata, items });
}

function collectionOf(
  path: string,
  tenant: string,
): { readonly kind: string; readonly items: readonly object[] } | undefined {
  switch (path) {
    case '/api/v1/nodes':
      return { kind: 'Node', items: some(NODES, (index) => node(tenant, index)) };
    case '/api/v1/pods':
      return { kind: 'Pod', items: some(PODS, (index) => pod(tenant, index)) };
    case '/api/v1/persistentvolumeclaims':
      return { kind: 'PersistentVolumeClaim', items: some(1, () => claim(tenant)) };
    case '/api/v1/services':
      return { kind: 'Service', items: [] };
    default:
      return undefined;
  }
}

function some(count: number, make: (index: number) => object): readonly object[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function meta(name: string, namespace?: string): object {
  return {
    name,
    namespace,
    uid: `uid-${namespace ?? ''}-${name}`,
    resourceVersion: '900',
    creationTimestamp: BORN,
  };
}

function node(tenant: string, index: number): object {
  const resources = { cpu: '192', memory: '2Ti', pods: '250', 'nvidia.com/gpu': '8' };
  const labels = {
    'node.kubernetes.io/instance-type': 'p5.48xlarge',
    'nvidia.com/gpu.product': 'NVIDIA-H100-80GB-HBM3',
    'nvidia.com/gpu.count': '8',
    'nvidia.com/gpu.replicas': '1',
  };
  return {
    metadata: { ...meta(`own-${tenant}-${index}`), labels },
    spec: {},
    status: {
      capacity: resources,
      allocatable: resources,
      conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: BORN }],
    },
  };
}

function pod(tenant: string, index: number): object {
  const requests = { cpu: '4', memory: '16Gi' };
  return {
    metadata: meta(`work-${index}`, 'default'),
    spec: {
      nodeName: `own-${tenant}-${index % NODES}`,
      containers: [{ name: 'main', resources: { requests } }],
    },
    status: {
      phase: 'Running',
      startTime: BORN,
      containerStatuses: [{ name: 'main', state: { running: { startedAt: BORN } } }],
    },
  };
}

function claim(tenant: string): object {
  return {
    metadata: meta(`data-${tenant}`, 'default'),
    spec: { storageClassName: 'fast', resources: { requests: { storage: '100Gi' } } },
    status: { phase: 'Bound', capacity: { storage: '100Gi' } },
  };
}

/**
 * Six kinds: a web page, JSON of another kind, an answer without an end, as many values as fit, a list
 * without an end, and one of pages that are as large as they may be and keep every rule.
 */
function garbage(number: number, request: IncomingMessage, response: ServerResponse): void {
  switch (number % 6) {
    case 0:
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Sign in</html>');
      break;
    case 1:
      send(response, 200, { nodes: null, items: 'none' });
      break;
    case 2:
      endless(response);
      break;
    case 3:
      response.writeHead(200, { 'content-type': 'application/json' }).end(VALUES);
      break;
    case 4:
      // Slowly enough to stay within the bytes and the time that a tenant cluster has in a minute.
      setTimeout(() => sendText(response, 200, largePage()), LARGE_PAGE_MS);
      break;
    default: {
      const items = some(500, (index) => ({ metadata: meta(`${request.url}-${index}`) }));
      send(response, 200, {
        metadata: { resourceVersion: '1', continue: `${Math.random()}` },
        items,
      });
    }
  }
}

function endless(response: ServerResponse): void {
  const more = (): void => {
    while (!response.destroyed && response.write(JUNK));
  };
  response.on('drain', more);
  more();
}

const LARGE_BYTES = 2_000_000;
const LARGE_PAGE_MS = 1_200;
const LABELS = Object.fromEntries(
  Array.from({ length: 300 }, (_, index) => [`example.com/label-${index}`, 'x'.repeat(48)]),
);
const VALUES = `{"metadata":{"resourceVersion":"1"},"items":[${'{},'.repeat(LARGE_BYTES / 3)}{}]}`;
const LARGE_ITEMS = some(88, (index) => ({
  metadata: { ...meta(`large-${index}`), labels: LABELS },
}))
  .map((item) => JSON.stringify(item))
  .join(',');

/** The same nodes again and again. */
function largePage(): string {
  return `{"metadata":{"resourceVersion":"1","continue":"${Math.random()}"},"items":[${LARGE_ITEMS}]}`;
}

function send(response: ServerResponse, code: number, body: object): void {
  sendText(response, code, JSON.stringify(body));
}

function sendText(response: ServerResponse, code: number, body: string): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(body);
}
