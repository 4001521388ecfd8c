import { type ApiType, type KubeConfig, RequestContext } from '@kubernetes/client-node';
import type { Dispatcher } from 'undici';
import { parseJson } from '../model/parse-json.ts';
import { createDeadline } from '../telemetry/deadline.ts';
import { withoutSecret } from '../telemetry/scrubber.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import {
  type NetworkFailure,
  networkFailure,
  type RequestFailure,
  type StatusFailure,
  statusFailure,
} from './outcome.ts';
import { type ConnectionLimits, PooledKubeConfig } from './pooled-kube-config.ts';

export type QueryValue = string | number | boolean | undefined;

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Undefined values are left out. */
  readonly query?: Readonly<Record<string, QueryValue>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** `application/json` by default; patches name their kind here. */
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  /** For the whole exchange, body included. */
  readonly timeoutMs?: number;
  /** Called with the number of bytes received, so that the caller can limit them. */
  readonly onReceived?: (bytes: number) => void;
  /** Parses the bytes of a 2xx answer, for example in a worker; JSON by default. */
  readonly read?: ReadBody;
}

export type ReadBody = (
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
) => Promise<{ readonly kind: 'ok'; readonly body: unknown } | NetworkFailure>;

export type RequestOutcome =
  | { readonly kind: 'ok'; readonly status: number; readonly body: unknown }
  | RequestFailure;

/** `chunks` throws when the connection is cut or the signal aborts; leaving the loop closes it. */
export type BytesOutcome =
  | { readonly kind: 'ok'; readonly chunks: AsyncIterable<Uint8Array> }
  | RequestFailure;

interface StreamOptions {
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  /** Until the answer begins, or an error answer is complete. */
  readonly timeoutMs?: number;
  /** Called with the size of each chunk, so that the caller can limit the bytes. */
  readonly onReceived?: (bytes: number) => void;
}

export type StreamOutcome =
  /** `lines` throws when the connection is cut or the signal aborts; leaving the loop closes it. */
  { readonly kind: 'ok'; readonly lines: AsyncIterable<string> } | RequestFailure;

type ClientArguments = ConstructorParameters<Parameters<KubeConfig['makeApiClient']>[0]>;

const DEFAULT_TIMEOUT_MS = 15_000;
const USER_AGENT = 'meterfeed';
/** Parsing so much takes about 1 ms. */
const LARGE_BYTES = 64 * 1024;
/** An object has a few MiB at most; a longer line is no watch event. */
const MAX_LINE_LENGTH = 32 * 1024 * 1024;

/**
 * One API server: its address, credentials and connection pools. Opens the first connection with
 * the first request. Reports failures of the server or the network as outcomes and never throws for
 * them.
 */
export class Connection {
  readonly #kubeConfig: PooledKubeConfig;
  /** Maximum characters of one line of a stream; undefined for the default. */
  readonly #mostLineLength: number | undefined;
  readonly #mostParsedBytes: number;
  readonly #slice = new TimeSlice(systemClock);
  /** The credentials that each request sends; they must not appear in quoted answers. */
  readonly #secrets: readonly string[];

  /** `limits` are tighter limits for an API server that is not trusted. */
  constructor(kubeConfig: KubeConfig, limits?: ConnectionLimits) {
    this.#kubeConfig = new PooledKubeConfig(kubeConfig, limits);
    this.#mostLineLength = limits?.lineLength;
    this.#mostParsedBytes = limits?.parsedBytes ?? Infinity;
    const { token, password } = kubeConfig.getCurrentUser() ?? {};
    this.#secrets = [token, password].flatMap((secret) => secret || []);
  }

  /** For typed calls; they use the same pool. */
  get kubeConfig(): KubeConfig {
    return this.#kubeConfig;
  }

  /** A typed client of the client library, such as `CoreV1Api`. */
  client<T extends ApiType>(type: new (...args: ClientArguments) => T): T {
    return this.#kubeConfig.makeApiClient(type);
  }

  /** One request and its JSON answer; any 2xx is `ok`. */
  async request(path: string, options: RequestOptions = {}): Promise<RequestOutcome> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const deadline = createDeadline(timeoutMs, options.signal);
    try {
      const sent = this.#send(path, 'requests', { ...options, signal: deadline.signal });
      const response = await unlessAborted(sent, deadline.signal);
      const status = response.statusCode;
      if (status < 200 || status > 299)
        return await this.#refusal(response, path, options.onReceived);
      const bytes = new Uint8Array(await response.body.arrayBuffer());
      options.onReceived?.(bytes.length);
      const read = options.read ?? this.#parse;
      const outcome = await read(bytes, deadline.signal);
      return outcome.kind === 'ok' ? { ...outcome, status } : outcome;
    } catch (error) {
      if (deadline.expired()) return timedOut(timeoutMs);
      return options.signal?.aborted === true ? ABORTED : networkFailure(error);
    } finally {
      deadline.release();
    }
  }

  /** Reads a response as it arrives, such as a list too large for memory. */
  async bytes(path: string, options: StreamOptions): Promise<BytesOutcome> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const deadline = createDeadline(timeoutMs, options.signal);
    try {
      const sent = this.#send(path, 'streams', { ...options, signal: deadline.signal });
      const response = await unlessAborted(sent, deadline.signal);
      if (response.statusCode !== 200) {
        const refusal = await this.#refusal(response, path, options.onReceived);
        deadline.release();
        return refusal;
      }
      deadline.disarm();
      response.body.once('close', deadline.release);
      const { onReceived } = options;
      const chunks: AsyncIterable<Uint8Array> = response.body;
      return { kind: 'ok', chunks: onReceived ? countBytes(chunks, onReceived) : chunks };
    } catch (error) {
      deadline.release();
      if (deadline.expired()) return timedOut(timeoutMs);
      return options.signal.aborted ? ABORTED : networkFailure(error);
    }
  }

  /** Reads a response line by line as it arrives, such as a watch that does not end. */
  async stream(path: string, options: StreamOptions): Promise<StreamOutcome> {
    const outcome = await this.bytes(path, options);
    return outcome.kind === 'ok'
      ? { kind: 'ok', lines: readLines(outcome.chunks, this.#mostLineLength) }
      : outcome;
  }

  /** Closes every connection; later requests fail. */
  async close(): Promise<void> {
    await this.#kubeConfig.close();
  }

  async #send(
    path: string,
    pool: 'requests' | 'streams',
    options: RequestOptions,
  ): Promise<Dispatcher.ResponseData> {
    const cluster = this.#kubeConfig.getCurrentCluster();
    if (cluster === null) throw new Error('connection: the kubeconfig names no cluster');
    const url = new URL(cluster.server.replace(/\/+$/, '') + path);
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const context = new RequestContext(url.href, 'GET');
    await this.#kubeConfig.applySecurityAuthentication(context);
    const contentType = options.contentType ?? 'application/json';
    return await this.#kubeConfig.pools()[pool].request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: options.method ?? 'GET',
      headers: {
        ...context.getHeaders(),
        'User-Agent': USER_AGENT,
        Accept: 'application/json',
        ...(options.body === undefined ? {} : { 'Content-Type': contentType }),
      },
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  }

  readonly #parse: ReadBody = async (bytes) => {
    if (bytes.length > this.#mostParsedBytes) return TOO_MUCH_TO_PARSE;
    // Large answers that complete in one tick of the event loop are parsed in separate ticks.
    if (bytes.length >= LARGE_BYTES && this.#slice.isOver) await this.#slice.next();
    return { kind: 'ok', body: parseJson(new TextDecoder().decode(bytes)) };
  };

  /**
   * Parses an error answer. Removes credentials that the server repeats in it, because the text
   * ends up in logs and statuses.
   */
  async #refusal(
    response: Dispatcher.ResponseData,
    path: string,
    onReceived: RequestOptions['onReceived'],
  ): Promise<StatusFailure> {
    const body = parseJson(await beginningOf(response.body, onReceived));
    // Redact the complete body first: cutting the message could leave half of a secret.
    const redacted = this.#secrets.reduce(withoutSecret, JSON.stringify(body ?? null));
    const retryAfter = response.headers['retry-after'];
    return statusFailure(response.statusCode, parseJson(redacted), {
      path,
      ...(typeof retryAfter === 'string' && { retryAfter }),
    });
  }
}

/**
 * Rejects as soon as the signal is aborted. undici ignores the signal of a request that still waits
 * for a free connection: it could wait for minutes while a silent server occupies every connection.
 * The request itself ends later, when undici would send it.
 */
async function unlessAborted<T>(sent: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => {
    const abort = (): void => reject(new Error('aborted'));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
  sent.catch(() => undefined);
  return Promise.race([sent, aborted]);
}

/** Maximum size of an error answer. */
const MOST_REFUSAL_BYTES = 256 * 1024;

/** The text of a body up to `MOST_REFUSAL_BYTES`; `''` for a longer one, whose reading stops. */
async function beginningOf(
  body: AsyncIterable<Uint8Array>,
  onReceived: RequestOptions['onReceived'],
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop cuts the connection.
  for await (const chunk of body) {
    onReceived?.(chunk.length);
    chunks.push(chunk);
    length += chunk.length;
    if (length > MOST_REFUSAL_BYTES) return '';
  }
  return Buffer.concat(chunks).toString('utf8');
}

const TOO_MUCH_TO_PARSE: NetworkFailure = {
  kind: 'network',
  message: 'the answer exceeds the size limit for parsing',
  tooLarge: true,
};

async function* countBytes(
  chunks: AsyncIterable<Uint8Array>,
  onReceived: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    onReceived(chunk.length);
    yield chunk;
  }
}

const ABORTED: NetworkFailure = { kind: 'network', message: 'aborted' };

function timedOut(timeoutMs: number): NetworkFailure {
  return { kind: 'network', message: `no complete answer within ${timeoutMs} ms` };
}

/**
 * Splits a stream of bytes into lines. Drops text after the last newline: it is half of an event
 * whose connection was cut, and the event comes again when the watch resumes. Throws the stream's
 * error, and an error for a line longer than `mostLength` characters.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  mostLength: number = MAX_LINE_LENGTH,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = '';
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      const line = pending + text.slice(start, end);
      pending = '';
      start = end + 1;
      if (line !== '') yield line;
    }
    pending += text.slice(start);
    if (pending.length > mostLength) throw new Error('stream: a line is too long');
  }
}
