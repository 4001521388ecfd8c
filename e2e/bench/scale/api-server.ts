import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createChurn } from './churn.ts';
import { AppliedMarks, type MarkedObject, SUSPENDED_PATH } from './marks.ts';
import { createPopulation, foreignNamespaces, type Size } from './population.ts';
import { answerQuery, PROMETHEUS_PATH } from './prometheus.ts';
import { createWatchLog, type WatchLog } from './watch-log.ts';

/**
 * A stand-in for the API server of a large cluster, in a process of its own: pages of lists and
 * watch events at the wire format, made as they are sent. Arguments: the size and the changes a
 * second, as JSON. Tells its parent the port; answers `stats` with the requests served so far. Below
 * `/prometheus` it answers queries, which are counted by themselves. Custom resources are those that a bench
 * has put there; the operator's own default policy is none of them.
 */
interface Arguments {
  readonly size: Size;
  readonly changesPerSecond: number;
}

interface Collection {
  readonly kind: string;
  readonly apiVersion: string;
  readonly count: number;
  readonly item: (index: number, resourceVersion: number) => string;
  readonly log: WatchLog;
}

const { size, changesPerSecond } = JSON.parse(process.argv[2] ?? '{}') as Arguments;
const bornAt = Date.now() - 86_400_000;
const population = createPopulation(size, bornAt);
const churn = createChurn(size, bornAt);
const VOLUMES_PER_POD = 0.1;
const SERVICES_PER_TENANT = 5;
const TICK_MS = 50;
const BOOKMARK_MS = 30_000;
/** A client that stops in the middle of a list must not stop the world for ever. */
const LIST_PAUSE_MS = 5_000;

let version = 1_000;
let listing: { readonly path: string; readonly until: number } | undefined;
const requests: Record<string, number> = {};
let queries = 0;
const objects = new Map<string, string>();
const marks = new AppliedMarks();

const collection = (
  kind: string,
  apiVersion: string,
  count: number,
  item: Collection['item'],
): Collection => ({ kind, apiVersion, count, item, log: createWatchLog() });

const allPods = size.pods + (size.foreign ?? 0);
const NONE = (): string => '{}';
const COLLECTIONS = new Map<string, Collection>([
  [
    '/api/v1/pods',
    collection('Pod', 'v1', allPods, (slot, rv) =>
      slot < size.pods
        ? population.pod(churn.pod(slot), rv)
        : population.foreign.pod(slot - size.pods, rv),
    ),
  ],
  ['/api/v1/nodes', collection('Node', 'v1', size.nodes, population.node)],
  [
    '/api/v1/namespaces',
    collection('Namespace', 'v1', size.tenants + foreignNamespaces(size), (index, rv) =>
      index < size.tenants
        ? marks.on({ collection: '/api/v1/namespaces', index }, population.namespace(index, rv))
        : population.foreign.namespace(index - size.tenants, rv),
    ),
  ],
  [
    '/apis/apps/v1/statefulsets',
    collection('StatefulSet', 'apps/v1', size.tenants, (index, rv) =>
      marks.on(
        { collection: '/apis/apps/v1/statefulsets', index },
        population.statefulSet(index, rv),
      ),
    ),
  ],
  ['/apis/apps/v1/deployments', collection('Deployment', 'apps/v1', 0, NONE)],
  [
    '/api/v1/persistentvolumeclaims',
    collection('PersistentVolumeClaim', 'v1', size.pods * VOLUMES_PER_POD, population.claim),
  ],
  [
    '/api/v1/services',
    collection('Service', 'v1', size.tenants * SERVICES_PER_TENANT, population.service),
  ],
]);
const KINDS = ['billingdestinations', 'tenantoverrides', 'meteringpolicies', 'pricebooks'];
for (const plural of KINDS) {
  COLLECTIONS.set(
    `/apis/meterfeed.io/v1alpha1/${plural}`,
    collection(plural, 'meterfeed.io/v1alpha1', 0, NONE),
  );
}
/** A custom resource, by its collection. */
const CUSTOM_RESOURCE = /^(\/apis\/meterfeed\.io\/v1alpha1\/[^/]+)\/[^/]+$/;
const customResources = new Map<string, string>();
/** Secrets of one name, asked for with a field selector: those that were stored. */
const SECRETS = '/api/v1/secrets';
const SECRET_PATH = /^\/api\/v1\/namespaces\/[^/]+\/secrets\/([^/]+)$/;
const secretLog = createWatchLog();
const METRICS = '/apis/metrics.k8s.io/v1beta1/pods';

const server = createServer((request, response) => {
  void answer(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.send?.({ port: (server.address() as AddressInfo).port });
process.on('message', (message) => {
  if (message === 'stats') process.send?.({ requests, queries });
});
process.on('disconnect', () => process.exit());

let owed = 0;
setInterval(() => {
  // A list shows one moment; changes wait until it has been read.
  if (listing !== undefined && Date.now() < listing.until) return;
  owed += (changesPerSecond * TICK_MS) / 1000;
  for (; owed >= 1; owed -= 1) change();
}, TICK_MS);
setInterval(() => {
  for (const { kind, apiVersion, log } of COLLECTIONS.values()) bookmark(log, kind, apiVersion);
  bookmark(secretLog, 'Secret', 'v1');
}, BOOKMARK_MS);

function bookmark(log: WatchLog, kind: string, apiVersion: string): void {
  log.bookmark(
    `{"type":"BOOKMARK","object":{"kind":"${kind}","apiVersion":"${apiVersion}","metadata":{"resourceVersion":"${version}"}}}`,
  );
}

let changes = 0;

function change(): void {
  version += 1;
  changes += 1;
  // Node statuses are rewritten all the time and change nothing that is billed.
  if (changes % 10 === 0 && size.nodes > 0) {
    const node = population.node((changes / 10) % size.nodes, version);
    COLLECTIONS.get('/api/v1/nodes')?.log.add(version, `{"type":"MODIFIED","object":${node}}`);
    return;
  }
  const { type, pod } = churn.next(Date.now());
  const object = population.pod(pod, version);
  COLLECTIONS.get('/api/v1/pods')?.log.add(version, `{"type":"${type}","object":${object}}`);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://stand-in');
  const path = url.pathname;
  if (path.startsWith(PROMETHEUS_PATH)) {
    queries += 1;
    return await answerQuery(request, response);
  }
  if (path === SUSPENDED_PATH) return send(response, 200, marks.suspended());
  const watch = url.searchParams.get('watch') === 'true';
  count(`${request.method} ${path}${watch ? ' watch' : ''}`);
  const found = COLLECTIONS.get(path);
  if (request.method !== 'GET') return await store(request, response, path);
  if (path === SECRETS) return sendSecrets(response, url.searchParams);
  if (path === METRICS) return await sendMetrics(response);
  if (found === undefined) return send(response, objects.has(path) ? 200 : 404, objects.get(path));
  if (watch) return found.log.follow(response, Number(url.searchParams.get('resourceVersion')));
  await sendPage(response, path, withCustomResources(path, found), url.searchParams);
}

/** A collection with the custom resources that were put into it. */
function withCustomResources(path: string, found: Collection): Collection {
  const put = [...customResources].filter(([name]) => CUSTOM_RESOURCE.exec(name)?.[1] === path);
  if (put.length === 0) return found;
  return { ...found, count: put.length, item: (index) => put[index]?.[1] ?? '{}' };
}

async function sendPage(
  response: ServerResponse,
  path: string,
  { kind, apiVersion, count: total, item }: Collection,
  query: URLSearchParams,
): Promise<void> {
  const limit = Number(query.get('limit') ?? total) || total;
  const [at, start] = (query.get('continue') ?? `${version}.0`).split('.').map(Number);
  const from = start ?? 0;
  const end = Math.min(total, from + limit);
  // Who asks for one object wants to know the newest version, and reads no further.
  if (limit > 1) listing = end < total ? { path, until: Date.now() + LIST_PAUSE_MS } : undefined;
  const next = end < total ? `,"continue":"${at}.${end}","remainingItemCount":${total - end}` : '';
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.write(
    `{"kind":"${kind}List","apiVersion":"${apiVersion}","metadata":{"resourceVersion":"${at}"${next}},"items":[`,
  );
  await sendItems(response, from, end, (index) => item(index, at ?? version));
  response.end(']}');
}

function sendSecrets(response: ServerResponse, query: URLSearchParams): void {
  if (query.get('watch') === 'true') {
    secretLog.follow(response, Number(query.get('resourceVersion')));
    return;
  }
  const [, name] = (query.get('fieldSelector') ?? '').split('metadata.name=');
  const all = [...objects].filter(([path]) => SECRET_PATH.exec(path)?.[1] === name);
  const [at, from = 0] = (query.get('continue') ?? `${version}.0`).split('.').map(Number);
  const end = from + Number(query.get('limit') ?? all.length);
  const next = end < all.length ? `,"continue":"${at}.${end}"` : '';
  const items = all.slice(from, end).map(([, text]) => text);
  send(
    response,
    200,
    `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"${at}"${next}},"items":[${items.join(',')}]}`,
  );
}

/** The metrics server does not page. */
async function sendMetrics(response: ServerResponse): Promise<void> {
  const now = Date.now();
  response.writeHead(200, { 'Content-Type': 'application/json' });
  response.write(
    '{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[',
  );
  await sendItems(response, 0, allPods, (slot) =>
    slot < size.pods
      ? population.podMetrics(churn.pod(slot), now)
      : population.foreign.podMetrics(slot - size.pods, now),
  );
  response.end(']}');
}

const ITEMS_PER_WRITE = 100;

async function sendItems(
  response: ServerResponse,
  from: number,
  end: number,
  item: (index: number) => string,
): Promise<void> {
  for (let start = from; start < end; start += ITEMS_PER_WRITE) {
    const indexes = Array.from(
      { length: Math.min(ITEMS_PER_WRITE, end - start) },
      (_, offset) => start + offset,
    );
    const text = (start === from ? '' : ',') + indexes.map(item).join(',');
    if (!response.write(text)) await once(response, 'drain');
  }
}

const CONFLICT =
  '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}';

/** Whether an object is there already that is to be made, or is of another version than the one to be replaced. */
function contradicts(
  method: string | undefined,
  stored: string | undefined,
  resourceVersion: unknown,
): boolean {
  if (stored === undefined) return false;
  if (method === 'POST') return true;
  const { metadata } = JSON.parse(stored) as {
    readonly metadata: { readonly resourceVersion: string };
  };
  return (
    method === 'PUT' &&
    resourceVersion !== undefined &&
    resourceVersion !== metadata.resourceVersion
  );
}

/** Leases, events and statuses: kept as they came. */
async function store(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<void> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  const body = JSON.parse(text || '{}') as { metadata?: Record<string, unknown> };
  version += 1;
  const metadata = { uid: path, ...body.metadata, resourceVersion: String(version) };
  const stored = JSON.stringify({ ...body, metadata });
  if (SECRET_PATH.test(path)) secretLog.add(version, `{"type":"MODIFIED","object":${stored}}`);
  const { name } = metadata as { name?: unknown };
  const place = request.method === 'POST' ? `${path}/${String(name)}` : path;
  if (contradicts(request.method, objects.get(place), body.metadata?.['resourceVersion'])) {
    return send(response, 409, CONFLICT);
  }
  const marked = request.method === 'PATCH' ? marks.objectAt(path) : undefined;
  if (marked !== undefined) return sendMarked(response, marked, metadata);
  objects.set(place, stored);
  const [, kind] = (request.method === 'PUT' && CUSTOM_RESOURCE.exec(path)) || [];
  if (kind !== undefined) {
    customResources.set(path, stored);
    COLLECTIONS.get(kind)?.log.add(version, `{"type":"MODIFIED","object":${stored}}`);
  }
  send(response, request.method === 'POST' ? 201 : 200, stored);
}

function sendMarked(response: ServerResponse, marked: MarkedObject, metadata: unknown): void {
  marks.apply(marked, metadata, Date.now());
  const found = COLLECTIONS.get(marked.collection);
  const object = found?.item(marked.index, version);
  found?.log.add(version, `{"type":"MODIFIED","object":${object}}`);
  send(response, 200, object);
}

function send(response: ServerResponse, code: number, body: string | undefined): void {
  response.writeHead(code, { 'Content-Type': 'application/json' });
  response.end(
    body ?? `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
  );
}

function count(what: string): void {
  requests[what] = (requests[what] ?? 0) + 1;
}
