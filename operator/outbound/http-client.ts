import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { Clock } from '../telemetry/clock.ts';
import { createDeadline } from '../telemetry/deadline.ts';
import { withoutCredential } from '../telemetry/scrubber.ts';
import {
  type AddressLookup,
  addressProblem,
  createGuardedLookup,
  RefusedAddressError,
} from './address-guard.ts';
import { describeFailure } from './failure-reason.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query after the base URL's path, beginning with `/`; empty for the base URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Milliseconds for the complete exchange, instead of the client's own total. */
  readonly timeoutMs?: number;
  /** Limit of the answer's body, instead of the client's own limit. */
  readonly responseBytes?: number;
}

export type HttpOutcome = HttpResponse | HttpFailure;

/** The server answered, with any status. */
interface HttpResponse {
  readonly kind: 'response';
  readonly status: number;
  /** Names in lower case; repeated headers joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** False if the body broke off or exceeded the size limit. The status counts all the same. */
  readonly complete: boolean;
}

/** No answer came. */
export interface HttpFailure {
  readonly kind: 'failed';
  /** `HTTP POST /api/v1/events/batch: connection refused`; no credentials, query or headers. */
  readonly reason: string;
  /** False if the server cannot have acted on it; otherwise it is unknown. */
  readonly sent: false | 'unknown';
  /** The URL itself is wrong, so retrying is useless until it changes. */
  readonly permanent: boolean;
}

/** Milliseconds. */
export interface HttpTimeouts {
  readonly connect: number;
  /** From the request's end to the response's headers. */
  readonly headers: number;
  /** Between two chunks of the response's body. */
  readonly body: number;
  /** The complete exchange. */
  readonly total: number;
}

const DEFAULT_TIMEOUTS: HttpTimeouts = {
  connect: 10_000,
  headers: 30_000,
  body: 15_000,
  total: 60_000,
};

export interface HttpClientOptions {
  /** The client's name in metrics: the destination's name, or `prometheus`. */
  readonly name: string;
  /** Credentials in it are sent as Basic authorization, never as part of the URL. */
  readonly baseUrl: string;
  /** Sent with every request; a request's own headers win. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeouts?: Partial<HttpTimeouts>;
  readonly connections?: number;
  readonly responseBytes?: number;
  /** Called before each request. While it returns false, nothing is sent. */
  readonly mayAct?: () => boolean;
}

/** Counts one attempt; `code` is the status, or `failed` without an answer. */
export type Observe = (destination: string, method: string, code: string, seconds: number) => void;

/** What all clients share. */
export interface ClientMeans {
  readonly clock: Clock;
  /** `meterfeed/<version>` */
  readonly userAgent: string;
  /** For tests: how names are resolved. */
  readonly lookup?: AddressLookup;
  readonly observe: Observe;
}

/** Connections per client. One more than batches use, for probes. */
const DEFAULT_CONNECTIONS = 8;
const DEFAULT_RESPONSE_BYTES = 4 * 1024 * 1024;
const KEEP_ALIVE_MS = 30_000;

/** The part of a client that callers need. */
export type HttpClient = Pick<PooledClient, 'request' | 'close'>;

/**
 * The only way to send HTTP requests, to one base URL. Its connections are pooled and bounded, and
 * each dialled address is checked. The constructor throws a TypeError if the URL is not http or
 * https.
 */
export class PooledClient {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #observe: Observe;
  readonly #base: BaseUrl;
  readonly #timeouts: HttpTimeouts;
  readonly #responseBytes: number;
  readonly #agent: Agent;
  /** Sent with every request, names in lower case. */
  readonly #headers: Readonly<Record<string, string>>;
  readonly #mayAct: () => boolean;

  constructor(client: HttpClientOptions, { clock, userAgent, lookup, observe }: ClientMeans) {
    this.#name = client.name;
    this.#mayAct = client.mayAct ?? (() => true);
    this.#clock = clock;
    this.#observe = observe;
    this.#base = readBaseUrl(client.baseUrl);
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...client.timeouts };
    this.#responseBytes = client.responseBytes ?? DEFAULT_RESPONSE_BYTES;
    this.#agent = createAgent(client, this.#timeouts, lookup);
    this.#headers = {
      'user-agent': userAgent,
      ...this.#base.authorization,
      ...lowerCased(client.headers ?? {}),
    };
  }

  /** Makes one attempt. Never throws, never retries, never follows a redirect. */
  async request(request: HttpRequest): Promise<HttpOutcome> {
    if (!this.#mayAct()) return notSent(request);
    const startedAt = this.#clock.monotonic();
    const outcome = await this.#attempt(request);
    const code = outcome.kind === 'response' ? String(outcome.status) : 'failed';
    const seconds = (this.#clock.monotonic() - startedAt) / 1000;
    this.#observe(this.#name, request.method, code, seconds);
    return outcome;
  }

  /** Closes the pooled connections and aborts running requests. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #attempt(request: HttpRequest): Promise<HttpOutcome> {
    const path = request.path === '' ? this.#base.full : this.#base.prefix + request.path;
    const deadline = createDeadline(request.timeoutMs ?? this.#timeouts.total, request.signal);
    const headers = { ...this.#headers, ...lowerCased(request.headers ?? {}) };
    try {
      const response = await this.#agent.request({
        origin: this.#base.origin,
        path,
        method: request.method,
        headers,
        body: request.body ?? null,
        signal: deadline.signal,
      });
      const status = response.statusCode;
      const { body, complete } = await readBody(
        response.body,
        request.responseBytes ?? this.#responseBytes,
      );
      return {
        kind: 'response',
        status,
        headers: plainHeaders(response.headers),
        body: isSuccess(status) ? body : withoutCredential(body, headers['authorization']),
        complete,
      };
    } catch (error) {
      const { text, ...failure } = describeFailure(error);
      const stopped = deadline.signal.aborted ? 'stopped' : text;
      const cause = deadline.expired() ? 'timed out' : stopped;
      const reason = `HTTP ${request.method} ${redactPath(path)}: ${cause}`;
      return { kind: 'failed', reason, ...failure };
    } finally {
      deadline.release();
    }
  }
}

function notSent({ method, path }: HttpRequest): HttpFailure {
  const reason = `HTTP ${method} ${redactPath(path)}: not sent: the Lease is not renewed`;
  return { kind: 'failed', reason, sent: false, permanent: false };
}

function createAgent(
  client: HttpClientOptions,
  timeouts: HttpTimeouts,
  lookup: AddressLookup | undefined,
): Agent {
  const connect = buildConnector({
    allowH2: false,
    timeout: timeouts.connect,
    lookup: createGuardedLookup(lookup),
    autoSelectFamily: true,
  });
  return new Agent({
    connections: client.connections ?? DEFAULT_CONNECTIONS,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: timeouts.headers,
    bodyTimeout: timeouts.body,
    allowH2: false,
    // An IP address in the URL skips the lookup, so it is checked here.
    connect: (target, callback) => {
      const problem = addressProblem(target.hostname);
      if (problem !== undefined) return callback(new RefusedAddressError(problem), null);
      connect(target, callback);
    },
  });
}

interface BaseUrl {
  readonly origin: string;
  /** Path and query for requests without a path. */
  readonly full: string;
  /** Path without a slash at the end, put before a request's path. */
  readonly prefix: string;
  readonly authorization: Readonly<Record<string, string>>;
}

function readBaseUrl(text: string): BaseUrl {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new TypeError('not an http or https URL: base URL');
  }
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const basic = `Basic ${Buffer.from(credentials).toString('base64')}`;
  return {
    origin: url.origin,
    full: url.pathname + url.search,
    prefix: url.pathname.replace(/\/$/, ''),
    authorization: credentials === ':' ? {} : { authorization: basic },
  };
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

function plainHeaders(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, [value ?? ''].flat().join(', ')]),
  );
}

async function readBody(
  body: Dispatcher.ResponseData['body'],
  bound: number,
): Promise<{ body: string; complete: boolean }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let complete = true;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bound) {
        complete = false;
        break;
      }
    }
  } catch {
    complete = false;
  }
  return { body: Buffer.concat(chunks).subarray(0, bound).toString('utf8'), complete };
}

const HTTP_OK = 200;
const HTTP_MULTIPLE_CHOICES = 300;

/** Whether a status is one of the 2xx. */
export function isSuccess(status: number): boolean {
  return status >= HTTP_OK && status < HTTP_MULTIPLE_CHOICES;
}

/** The path of a request for a log line, without its query. */
export function redactPath(path: string): string {
  return path.split(/[?#]/, 1)[0] ?? '';
}

const SECONDS = /^\d{1,9}$/;

/**
 * The delay of a Retry-After header in milliseconds from `now`; undefined if it is missing or
 * invalid. It may be seconds or an HTTP date.
 */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (SECONDS.test(text)) return Number(text) * 1000;
  const at = text === '' ? Number.NaN : Date.parse(text);
  return Number.isFinite(at) ? Math.max(0, at - now) : undefined;
}
