import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { type ObjectStore, type Place, placeOf, recordOf } from './object-store.ts';

export interface ServeOptions {
  readonly store: ObjectStore;
  /** Requests without it are refused. */
  readonly token: string;
  /** Told of every request. */
  readonly onRequest?: (method: string, path: string) => void;
  /** Told of every object, status and event that the client writes, as it came. */
  readonly written?: (path: string, body: string) => void;
}

/** The versions of groups of which there is no `v1`. */
const SERVED: Readonly<Record<string, readonly string[]>> = {
  'k3k.io': ['v1beta1'],
  'kamaji.clastix.io': ['v1alpha1'],
  'hypershift.openshift.io': ['v1beta1'],
  'cluster.x-k8s.io': ['v1beta2'],
};

const BOOKMARK_MS = 15_000;
const MERGE_PATCH = /merge-patch|apply-patch/;

/** Answers one request as a Kubernetes API server does, as far as the operator asks. Never rejects. */
export async function serveApi(
  options: ServeOptions,
  request: IncomingMessage,
  response: ServerResponse,
  path = request.url ?? '/',
): Promise<void> {
  response.on('error', () => undefined);
  try {
    const url = new URL(path, 'http://stand-in');
    options.onRequest?.(request.method ?? '', url.pathname);
    if (request.headers.authorization !== `Bearer ${options.token}`) {
      return refuse(response, 401, 'Unauthorized');
    }
    const [, , name = ''] = url.pathname.split('/');
    const group = groupOf(url.pathname, SERVED[name]);
    if (group !== undefined) return send(response, 200, group);
    const place = placeOf(url.pathname);
    if (place === undefined) return refuse(response, 404, 'NotFound');
    if (request.method !== 'GET') return await write(options, place, request, response);
    if (place.name !== '') {
      const object = options.store.get(place);
      return object === undefined ? refuse(response, 404, 'NotFound') : send(response, 200, object);
    }
    const matches = selector(url.searchParams);
    if (url.searchParams.get('watch') === 'true') {
      const version = Number(url.searchParams.get('resourceVersion') ?? 0);
      return follow(options.store, place, version, matches, response);
    }
    send(response, 200, {
      kind: 'List',
      apiVersion: 'v1',
      metadata: { resourceVersion: String(options.store.version) },
      items: options.store.list(place).filter(matches),
    });
  } catch {
    response.destroy();
  }
}

/** What `/apis/<group>` says: the versions that are served. */
export function groupOf(path: string, versions: readonly string[] = ['v1']): RawObject | undefined {
  const [, name] = /^\/apis\/([^/]+)$/.exec(path) ?? [];
  if (name === undefined) return undefined;
  const served = versions.map((version) => ({ groupVersion: `${name}/${version}`, version }));
  return { kind: 'APIGroup', apiVersion: 'v1', name, versions: served };
}

function follow(
  store: ObjectStore,
  place: Place,
  version: number,
  matches: (object: RawObject) => boolean,
  response: ServerResponse,
): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.flushHeaders();
  const line = (event: object): void => void response.write(`${JSON.stringify(event)}\n`);
  const stop = store.follow(place.collection, version, ({ type, object }) => {
    if (matches(object)) line({ type, object });
  });
  if (stop === undefined) {
    line({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } });
    response.end();
    return;
  }
  const bookmark = setInterval(() => {
    const metadata = { resourceVersion: String(store.version) };
    line({ type: 'BOOKMARK', object: { kind: 'Bookmark', apiVersion: 'v1', metadata } });
  }, BOOKMARK_MS);
  response.once('close', () => {
    clearInterval(bookmark);
    stop();
  });
}

async function write(
  { store, written }: ServeOptions,
  place: Place,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  written?.(request.url ?? '', text);
  if (request.method === 'DELETE') {
    store.delete(place);
    return send(response, 200, { kind: 'Status', status: 'Success' });
  }
  const body = recordOf(JSON.parse(text === '' ? '{}' : text));
  const { name: given } = recordOf(body['metadata']);
  const name = place.name === '' && typeof given === 'string' ? given : place.name;
  const target = { ...place, name: name === '' ? `generated-${store.version}` : name };
  const isPatch = MERGE_PATCH.test(request.headers['content-type'] ?? '');
  const before = store.get(target);
  if (isPatch && before === undefined) return refuse(response, 404, 'NotFound');
  if (request.method === 'POST' && before !== undefined) {
    return refuse(response, 409, 'AlreadyExists');
  }
  const object = isPatch ? merged(before ?? {}, body) : body;
  send(response, request.method === 'POST' ? 201 : 200, store.put(target, object));
}

/** RFC 7396. */
function merged(target: RawObject, patch: RawObject): RawObject {
  const result: Record<string, unknown> = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (value === null) delete result[key];
    else result[key] = isObject ? merged(recordOf(result[key]), recordOf(value)) : value;
  }
  return result;
}

/** What the query selects: `app in (a,b)`, and `metadata.name=…`. */
function selector(query: URLSearchParams): (object: RawObject) => boolean {
  const [, key = '', values = ''] =
    /^(\S+) in \(([^)]*)\)$/.exec(query.get('labelSelector') ?? '') ?? [];
  const [, name] = /^metadata\.name=(.+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return (object) => {
    const metadata = recordOf(object['metadata']);
    if (name !== undefined && metadata['name'] !== name) return false;
    if (key === '') return true;
    return values.split(',').includes(String(recordOf(metadata['labels'])[key]));
  };
}

function refuse(response: ServerResponse, code: number, reason: string): void {
  send(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code });
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
