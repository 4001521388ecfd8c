import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createMisbehaviours, type Misbehaviour, type Misbehaviours } from './misbehaviour.ts';

/** The prefix of paths for tests, which are not part of the vendor's API. */
export const CONTROL_PREFIX = '/_fake/';

export interface FakeRequest {
  readonly method: string;
  /** Without the query, still percent-encoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** When the request arrived, milliseconds since the epoch. */
  readonly at: number;
}

/** `body` is sent as JSON unless it is text. */
export interface FakeResponse {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Requests that changed a stand-in, in order. Repeating them restores its state. */
export interface RequestJournal {
  replay(): readonly FakeRequest[];
  append(request: FakeRequest): void;
}

export interface FakeServerOptions {
  /** Returns the refusal of a request without the right credentials; undefined lets it through. */
  readonly authorize?: (request: FakeRequest) => FakeResponse | undefined;
  /** Returns the vendor's answer to a request with the right credentials. Must not throw. */
  readonly handle: (request: FakeRequest) => FakeResponse;
  /** Delays every answer, so that calls can overlap. */
  readonly latencyMs?: number;
  /** Called after an answer went out. */
  readonly answered?: (request: FakeRequest) => void;
  /** Called after it misbehaved towards a request, as ordered. */
  readonly misbehaved?: (request: FakeRequest, order: Misbehaviour) => void;
  /** Stores requests that changed the state, so that a restarted stand-in restores it. */
  readonly journal?: RequestJournal;
  /** True if `requests` is filled, which tests need; the default. */
  readonly keepsRequests?: boolean;
  readonly now?: () => number;
  /** 0 takes any free port. */
  readonly port?: number;
}

export interface FakeServer {
  readonly url: string;
  /** Everything received but control requests, oldest first. */
  readonly requests: readonly FakeRequest[];
  readonly misbehaviours: Misbehaviours;
  close(): Promise<void>;
}

/** Starts an HTTP server on 127.0.0.1 that plays a vendor and misbehaves as ordered. */
export async function startFakeServer(options: FakeServerOptions): Promise<FakeServer> {
  const now = options.now ?? Date.now;
  const requests: FakeRequest[] = [];
  const misbehaviours = createMisbehaviours();
  for (const request of options.journal?.replay() ?? []) options.handle(request);

  const commit = (request: FakeRequest): FakeResponse => {
    const response = options.authorize?.(request) ?? options.handle(request);
    if (request.method !== 'GET' && response.status < 300) options.journal?.append(request);
    return response;
  };
  const serve = (request: FakeRequest, response: ServerResponse): void => {
    if (request.path.startsWith(CONTROL_PREFIX) && control(request, misbehaviours)) {
      return answer(response, { status: 204 });
    }
    if (request.path.startsWith(CONTROL_PREFIX)) return answer(response, options.handle(request));
    if (options.keepsRequests !== false) requests.push(request);
    const order = misbehaviours.next(request.method, request.path);
    if (order === undefined) {
      const ready = commit(request);
      return later(() => {
        options.answered?.(request);
        answer(response, ready);
      });
    }
    if (order.kind.startsWith('commit-')) commit(request);
    options.misbehaved?.(request, order);
    options.answered?.(request);
    misbehave(order, response);
  };
  const later = (act: () => void): void => {
    if (options.latencyMs === undefined) act();
    else setTimeout(act, options.latencyMs);
  };

  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      serve(readRequest(incoming, Buffer.concat(chunks).toString('utf8'), now()), response);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    misbehaviours,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Handles `POST /_fake/misbehave`, which takes an order, and `POST /_fake/behave`, which ends all.
 */
function control(request: FakeRequest, misbehaviours: Misbehaviours): boolean {
  if (request.method !== 'POST') return false;
  if (request.path === `${CONTROL_PREFIX}behave`) misbehaviours.clear();
  else if (request.path === `${CONTROL_PREFIX}misbehave`) {
    misbehaviours.add(JSON.parse(request.body) as Misbehaviour);
  } else return false;
  return true;
}

function misbehave(order: Misbehaviour, response: ServerResponse): void {
  if (order.kind === 'reset' || order.kind === 'commit-then-reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  if (order.kind === 'hang' || order.kind === 'commit-then-hang') return;
  const { status = 503, headers = {}, body } = order;
  answer(response, { status, headers, body });
}

function answer(response: ServerResponse, { status, headers = {}, body }: FakeResponse): void {
  if (body === undefined) {
    response.writeHead(status, headers).end();
    return;
  }
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const type = typeof body === 'string' ? 'text/html; charset=utf-8' : 'application/json';
  response.writeHead(status, { 'content-type': type, ...headers }).end(text);
}

function readRequest(incoming: IncomingMessage, body: string, at: number): FakeRequest {
  const url = new URL(incoming.url ?? '/', 'http://fake');
  const headers = Object.entries(incoming.headers).map(
    ([name, value]) => [name, [value ?? ''].flat().join(', ')] as const,
  );
  return {
    method: incoming.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    headers: Object.fromEntries(headers),
    body,
    at,
  };
}
