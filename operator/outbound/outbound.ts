import { Counter, Histogram, type Registry } from 'prom-client';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { Clock } from '../telemetry/clock.ts';
import { withoutCredential } from '../telemetry/scrubber.ts';
import {
  type AddressLookup,
  addressProblem,
  createGuardedLookup,
  RefusedAddressError,
} from './address-guard.ts';
import { describeFailure } from './failure-reason.ts';
import {
  DEFAULT_TIMEOUTS,
  type HttpClient,
  type HttpOutcome,
  type HttpRequest,
  type HttpTimeouts,
  isSuccess,
  redactPath,
} from './http-client.ts';

/** Connections per client; one in reserve for probes while batches are under way. */
const DEFAULT_CONNECTIONS = 8;
const DEFAULT_RESPONSE_BYTES = 4 * 1024 * 1024;
const KEEP_ALIVE_MS = 30_000;
const SECONDS_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface Outbound {
  /** A client of one base URL with its own connections. Throws a TypeError when the URL is not http or https. */
  client(options: HttpClientOptions): HttpClient;
}

export interface HttpClientOptions {
  /** Names the client in metrics: the destination's name, or `prometheus`. */
  readonly name: string;
  /** Credentials in it are sent as Basic authorization, never as part of the URL. */
  readonly baseUrl: string;
  /** Sent with every request; a request's own headers win. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeouts?: Partial<HttpTimeouts>;
  readonly connections?: number;
  readonly responseBytes?: number;
}

export interface OutboundOptions {
  readonly registry: Registry;
  readonly clock: Clock;
  /** `meterfeed/<version>` */
  readonly userAgent: string;
  /** For tests: how names become addresses. */
  readonly lookup?: AddressLookup;
}

/** The one maker of HTTP clients: pooled, bounded, without redirects, its addresses checked as they are dialled. */
export function createOutbound(options: OutboundOptions): Outbound {
  const observe = createOutboundMetrics(options.registry);
  return { client: (client) => new PooledClient(client, options, observe) };
}

class PooledClient implements HttpClient {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #observe: Observe;
  readonly #base: BaseUrl;
  readonly #timeouts: HttpTimeouts;
  readonly #responseBytes: number;
  readonly #agent: Agent;
  /** Sent with every request, names in lower case. */
  readonly #headers: Readonly<Record<string, string>>;

  constructor(
    client: HttpClientOptions,
    { clock, userAgent, lookup }: OutboundOptions,
    observe: Observe,
  ) {
    this.#name = client.name;
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

  async request(request: HttpRequest): Promise<HttpOutcome> {
    const startedAt = this.#clock.monotonic();
    const outcome = await this.#attempt(request);
    const code = outcome.kind === 'response' ? String(outcome.status) : 'failed';
    const seconds = (this.#clock.monotonic() - startedAt) / 1000;
    this.#observe(this.#name, request.method, code, seconds);
    return outcome;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #attempt(request: HttpRequest): Promise<HttpOutcome> {
    const path = request.path === '' ? this.#base.whole : this.#base.prefix + request.path;
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
      const reason = `HTTP ${request.method} ${redactPath(path)}: ${deadline.cause() ?? text}`;
      return { kind: 'failed', reason, ...failure };
    } finally {
      deadline.end();
    }
  }
}

function createAgent(
  client: HttpClientOptions,
  timeouts: HttpTimeouts,
  lookup: OutboundOptions['lookup'],
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
    // An address that is written out never passes the lookup, so it is checked here.
    connect: (target, callback) => {
      const problem = addressProblem(target.hostname);
      if (problem !== undefined) return callback(new RefusedAddressError(problem), null);
      connect(target, callback);
    },
  });
}

interface BaseUrl {
  readonly origin: string;
  /** Path and query, for requests that name no path of their own. */
  readonly whole: string;
  /** Path without a slash at its end, before which a request's own path is put. */
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
    whole: url.pathname + url.search,
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

/** Ends an exchange when its time is up or its caller stops. */
function createDeadline(ms: number, caller?: AbortSignal) {
  const controller = new AbortController();
  let cause: string | undefined;
  const stop = (text: string): void => {
    cause ??= text;
    controller.abort();
  };
  const onAbort = (): void => stop('stopped');
  const timer = setTimeout(() => stop('timed out'), ms);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    /** What ended it, in words; undefined while nothing has. */
    cause: () => cause,
    /** Lets go of the timer and of the caller's signal, which lives longer than the exchange. */
    end: (): void => {
      clearTimeout(timer);
      caller?.removeEventListener('abort', onAbort);
    },
  };
}

/** Counts one attempt; `code` is the status, or `failed` when no answer came. */
type Observe = (destination: string, method: string, code: string, seconds: number) => void;

/** The metrics of outbound HTTP, on an injected registry. */
function createOutboundMetrics(registry: Registry): Observe {
  const requests = new Counter({
    name: 'meterfeed_outbound_requests_total',
    help: 'HTTP requests to the outside by destination, method and status ("failed" without an answer)',
    labelNames: ['destination', 'method', 'code'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'meterfeed_outbound_request_seconds',
    help: 'Duration of HTTP requests to the outside by destination',
    labelNames: ['destination'],
    buckets: SECONDS_BUCKETS,
    registers: [registry],
  });
  return (destination, method, code, duration) => {
    requests.inc({ destination, method, code });
    seconds.observe({ destination }, duration);
  };
}
