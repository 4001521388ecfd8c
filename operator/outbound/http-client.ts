/** The one way to the outside over HTTP. One client per destination, with its own pool. */
export interface HttpClient {
  /** One attempt; never throws, never retries, never follows a redirect. */
  request(request: HttpRequest): Promise<HttpOutcome>;
  /** Ends the pooled connections and cuts requests that are under way. */
  close(): Promise<void>;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query after the base URL's own path, beginning with `/`; empty for the base URL as it is. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Milliseconds for the whole exchange, instead of the client's own total. */
  readonly timeoutMs?: number;
  /** Where the answer's body is cut, instead of the client's own bound. */
  readonly responseBytes?: number;
}

export type HttpOutcome = HttpResponse | HttpFailure;

/** The other side answered, with whatever status. */
interface HttpResponse {
  readonly kind: 'response';
  readonly status: number;
  /** Names in lower case; repeated headers joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** False when the body broke off, or was cut at the size bound. The status counts all the same. */
  readonly complete: boolean;
}

/** No answer came. */
export interface HttpFailure {
  readonly kind: 'failed';
  /** `HTTP POST /api/v1/events/batch: connection refused`; no credentials, no query, no header values. */
  readonly reason: string;
  /** False when the other side cannot have acted on it; otherwise nobody knows. */
  readonly sent: false | 'unknown';
  /** The URL itself is at fault, so trying again is useless until it changes. */
  readonly permanent: boolean;
}

/** Milliseconds. */
export interface HttpTimeouts {
  readonly connect: number;
  /** From the request's end to the response's headers. */
  readonly headers: number;
  /** Between two pieces of the response's body. */
  readonly body: number;
  /** Everything together. */
  readonly total: number;
}

export const DEFAULT_TIMEOUTS: HttpTimeouts = {
  connect: 10_000,
  headers: 30_000,
  body: 15_000,
  total: 60_000,
};

const HTTP_OK = 200;
const HTTP_MULTIPLE_CHOICES = 300;

/** Whether a status is one of the 2xx. */
export function isSuccess(status: number): boolean {
  return status >= HTTP_OK && status < HTTP_MULTIPLE_CHOICES;
}

/** The path of a request fit for a log line: without its query. */
export function redactPath(path: string): string {
  return path.split(/[?#]/, 1)[0] ?? '';
}

const SECONDS = /^\d{1,9}$/;

/**
 * How long a Retry-After header asks to wait, in milliseconds from `now`; undefined when there is
 * none or it cannot be read. Both forms count: seconds and an HTTP date.
 */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (SECONDS.test(text)) return Number(text) * 1000;
  const at = text === '' ? Number.NaN : Date.parse(text);
  return Number.isFinite(at) ? Math.max(0, at - now) : undefined;
}
