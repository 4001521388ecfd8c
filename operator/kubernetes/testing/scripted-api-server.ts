import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import type { RawObject } from '../source.ts';

/** A failure with which the server answers a request. */
export type Mishap =
  | {
      readonly kind: 'answer';
      readonly code: number;
      readonly body?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The socket is destroyed without an answer. */
  | { readonly kind: 'cut' }
  /** Answers correctly, but only after {@link ScriptedApiServer.release}. */
  | { readonly kind: 'hold' }
  /** A watch that opens and then sends nothing. */
  | { readonly kind: 'quiet' };

export interface SeenRequest {
  readonly kind: 'list' | 'watch' | 'other';
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/**
 * An API server with one collection of objects, over plain HTTP on 127.0.0.1. Lists (paged),
 * watches, resource versions and expiry work as in Kubernetes; a test scripts failures.
 */
export interface ScriptedApiServer {
  readonly url: string;
  readonly kubeConfig: KubeConfig;
  readonly requests: readonly SeenRequest[];
  /** Sockets that are open at the moment. */
  readonly openSockets: number;
  /** Sockets ever accepted. */
  readonly acceptedSockets: number;
  /** Watches that are open at the moment. */
  readonly openWatches: number;
  /** Creates or replaces an object, and notifies the open watches. */
  put(object: ScriptedObject): RawObject;
  remove(namespace: string, name: string): void;
  /** Discards the history: watches, pages and exact lists from before it get 410. */
  compact(): void;
  /** Fails the next request of the kind; several failures queue up. */
  next(kind: SeenRequest['kind'], mishap: Mishap): void;
  /** Like {@link next}, for every request of the kind until cleared with undefined. */
  always(kind: SeenRequest['kind'], mishap: Mishap | undefined): void;
  release(): void;
  cutWatches(): void;
  endWatches(): void;
  /** Writes bytes unchanged into every open watch. */
  write(text: string): void;
  bookmark(): void;
  /** Changes the collection without notifying watches, like a lost event. */
  silently(change: () => void): void;
  /** Resolves with the next matching request, counted from `since`. */
  seen(accepts: (request: SeenRequest) => boolean, since?: number): Promise<SeenRequest>;
  /** Resolves when the predicate is true; checked after every request and socket change. */
  until(holds: () => boolean): Promise<void>;
  close(): Promise<void>;
}

export interface ScriptedObject {
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string;
  readonly [field: string]: unknown;
}

interface Change {
  readonly resourceVersion: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: RawObject;
}

interface OpenWatch {
  readonly response: ServerResponse;
  readonly namespace: string | undefined;
  readonly quiet: boolean;
}

export async function startScriptedApiServer(
  options: { readonly apiVersion?: string; readonly kind?: string } = {},
): Promise<ScriptedApiServer> {
  let resourceVersion = 100;
  let oldest = 0;
  let silent = false;
  const objects = new Map<string, RawObject>();
  const snapshots = new Map<number, readonly RawObject[]>();
  const history: Change[] = [];
  const requests: SeenRequest[] = [];
  const sockets = new Set<Socket>();
  const watches = new Set<OpenWatch>();
  const queued: { kind: SeenRequest['kind']; mishap: Mishap }[] = [];
  const lasting = new Map<SeenRequest['kind'], Mishap>();
  const held: (() => void)[] = [];
  const conditions = new Set<() => void>();
  let accepted = 0;
  let nextUid = 1;

  const changed = (): void => {
    for (const check of conditions) check();
  };

  function record(type: Change['type'], object: RawObject): void {
    const change = { resourceVersion, type, object };
    if (silent) return;
    history.push(change);
    for (const watch of watches) send(watch, change);
  }

  function send(watch: OpenWatch, change: Change): void {
    if (watch.quiet) return;
    if (watch.namespace !== undefined && namespaceOf(change.object) !== watch.namespace) return;
    watch.response.write(`${JSON.stringify({ type: change.type, object: change.object })}\n`);
  }

  const server = createServer((request, response) => {
    void readBody(request).then((body) => {
      const url = new URL(request.url ?? '/', 'http://localhost');
      const isCollection = request.method === 'GET' && url.pathname.endsWith('/pods');
      const kind = !isCollection ? 'other' : url.searchParams.has('watch') ? 'watch' : 'list';
      const seen: SeenRequest = {
        kind,
        method: request.method ?? '',
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers,
        body,
      };
      requests.push(seen);
      const index = queued.findIndex((entry) => entry.kind === kind);
      const mishap = index === -1 ? lasting.get(kind) : queued.splice(index, 1)[0]?.mishap;
      handle(seen, mishap, response);
      changed();
    });
  });
  server.on('connection', (socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => {
      sockets.delete(socket);
      changed();
    });
  });

  function handle(
    request: SeenRequest,
    mishap: Mishap | undefined,
    response: ServerResponse,
  ): void {
    if (mishap?.kind === 'cut') {
      response.destroy();
      return;
    }
    if (mishap?.kind === 'answer') {
      answer(
        response,
        mishap.code,
        mishap.body ?? statusOf(mishap.code, 'Scripted'),
        mishap.headers,
      );
      return;
    }
    if (mishap?.kind === 'hold') {
      held.push(() => handle(request, undefined, response));
      return;
    }
    if (request.kind === 'list') list(request, response);
    else if (request.kind === 'watch') watch(request, response, mishap?.kind === 'quiet');
    else answer(response, 404, statusOf(404, 'NotFound'));
  }

  function list(request: SeenRequest, response: ServerResponse): void {
    const token = request.query.get('continue');
    if (token !== null && request.query.has('resourceVersion')) {
      answer(response, 400, statusOf(400, 'BadRequest'));
      return;
    }
    const exact = request.query.get('resourceVersionMatch') === 'Exact';
    const [at, offset] =
      token === null
        ? [exact ? Number(request.query.get('resourceVersion')) : resourceVersion, 0]
        : token.split(':').map(Number);
    if (at === undefined || offset === undefined || at < oldest) {
      answer(response, 410, statusOf(410, 'Expired'));
      return;
    }
    if (token === null && !snapshots.has(at)) snapshots.set(at, stateAt(at));
    const all = (snapshots.get(at) ?? []).filter((object) => inNamespace(request.path, object));
    const limit = Number(request.query.get('limit') ?? all.length);
    // Like the real one, it sends the type only with the list.
    const items = all
      .slice(offset, offset + limit)
      .map(({ apiVersion: _a, kind: _k, ...rest }) => rest);
    const next = offset + limit < all.length ? `${at}:${offset + limit}` : undefined;
    answer(response, 200, {
      apiVersion: options.apiVersion ?? 'v1',
      kind: `${options.kind ?? 'Pod'}List`,
      metadata: { resourceVersion: String(at), continue: next },
      items,
    });
  }

  /** Undoes the history back to the version; silent changes are part of every version. */
  function stateAt(version: number): readonly RawObject[] {
    const state = new Map(objects);
    for (const change of history.toReversed()) {
      if (change.resourceVersion <= version) break;
      const key = keyOf(change.object);
      const before = history
        .filter((other) => other.resourceVersion <= version && keyOf(other.object) === key)
        .at(-1);
      if (before === undefined || before.type === 'DELETED') state.delete(key);
      else state.set(key, before.object);
    }
    return [...state.values()].toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }

  function watch(request: SeenRequest, response: ServerResponse, quiet: boolean): void {
    const from = Number(request.query.get('resourceVersion') ?? 0);
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.flushHeaders();
    if (from < oldest) {
      response.end(`${JSON.stringify({ type: 'ERROR', object: statusOf(410, 'Expired') })}\n`);
      return;
    }
    const namespace = /\/namespaces\/([^/]+)\//.exec(request.path)?.[1];
    const open: OpenWatch = { response, namespace, quiet };
    watches.add(open);
    response.on('close', () => {
      watches.delete(open);
      changed();
    });
    for (const change of history) if (change.resourceVersion > from) send(open, change);
  }

  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;

  return {
    url,
    kubeConfig: plainKubeConfig(url),
    requests,
    get openSockets() {
      return sockets.size;
    },
    get acceptedSockets() {
      return accepted;
    },
    get openWatches() {
      return watches.size;
    },
    put: ({ namespace, name, uid, ...fields }) => {
      const key = `${namespace}/${name}`;
      const held = objects.get(key);
      resourceVersion += 1;
      const object = {
        apiVersion: options.apiVersion ?? 'v1',
        kind: options.kind ?? 'Pod',
        metadata: {
          namespace,
          name,
          uid: uid ?? (held === undefined ? `uid-${nextUid++}` : uidOf(held)),
          resourceVersion: String(resourceVersion),
        },
        ...fields,
      };
      objects.set(key, object);
      record(held === undefined ? 'ADDED' : 'MODIFIED', object);
      return object;
    },
    remove: (namespace, name) => {
      const key = `${namespace}/${name}`;
      const held = objects.get(key);
      if (held === undefined) throw new Error(`scripted server: no object "${key}"`);
      resourceVersion += 1;
      objects.delete(key);
      const metadata = {
        ...(held['metadata'] as object),
        resourceVersion: String(resourceVersion),
      };
      record('DELETED', { ...held, metadata });
    },
    compact: () => {
      resourceVersion += 1;
      oldest = resourceVersion;
      history.length = 0;
      snapshots.clear();
    },
    next: (kind, mishap) => {
      queued.push({ kind, mishap });
    },
    always: (kind, mishap) => {
      if (mishap === undefined) lasting.delete(kind);
      else lasting.set(kind, mishap);
    },
    release: () => {
      for (const resume of held.splice(0)) resume();
    },
    cutWatches: () => {
      for (const watch of watches) watch.response.destroy();
      watches.clear();
    },
    endWatches: () => {
      for (const watch of watches) watch.response.end();
      watches.clear();
    },
    write: (text) => {
      for (const watch of watches) watch.response.write(text);
    },
    bookmark: () => {
      const object = {
        apiVersion: options.apiVersion ?? 'v1',
        kind: options.kind ?? 'Pod',
        metadata: { resourceVersion: String(resourceVersion) },
      };
      for (const watch of watches) {
        if (!watch.quiet) {
          watch.response.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
        }
      }
    },
    silently: (change) => {
      silent = true;
      change();
      silent = false;
    },
    seen: (accepts, since = 0) =>
      new Promise((resolve) => {
        const check = (): void => {
          const found = requests.slice(since).find(accepts);
          if (found === undefined) return;
          conditions.delete(check);
          resolve(found);
        };
        conditions.add(check);
        check();
      }),
    until: (holds) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (!holds()) return;
          conditions.delete(check);
          resolve();
        };
        conditions.add(check);
        check();
      }),
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

/**
 * A kubeconfig for a plain HTTP address, which the client library accepts only with skipTLSVerify.
 */
export function plainKubeConfig(server: string, token?: string): KubeConfig {
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: 'scripted', server, skipTLSVerify: true },
    { name: 'tester', token },
  );
  return kubeConfig;
}

function statusOf(code: number, reason: string): RawObject {
  return { kind: 'Status', status: 'Failure', code, reason, message: `scripted ${code}` };
}

function answer(
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(code, { 'Content-Type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function metadataOf(object: RawObject): RawObject {
  return object['metadata'] as RawObject;
}

function namespaceOf(object: RawObject): string {
  return String(metadataOf(object)['namespace']);
}

function uidOf(object: RawObject): string {
  return String(metadataOf(object)['uid']);
}

function keyOf(object: RawObject): string {
  return `${namespaceOf(object)}/${String(metadataOf(object)['name'])}`;
}

function inNamespace(path: string, object: RawObject): boolean {
  const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1];
  return namespace === undefined || namespaceOf(object) === namespace;
}
