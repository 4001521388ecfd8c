import { isRecord } from '../model/is-record.ts';

/** The API server answered with a status other than success. */
export interface StatusFailure {
  readonly kind: 'status';
  /** HTTP status code. */
  readonly code: number;
  /** Machine-readable reason of the `Status` object, such as `Conflict`; `''` without one. */
  readonly reason: string;
  /** One line, safe to log: the `Status` object's message, else only the HTTP code. */
  readonly message: string;
  /** From the `Retry-After` header, milliseconds. */
  readonly retryAfterMs?: number;
}

/** No answer: not connected, timed out, cut, closed, aborted. `message`: one line, safe to log. */
export interface NetworkFailure {
  readonly kind: 'network';
  readonly message: string;
  /** The answer exceeded the connection's limit; one with fewer objects may fit. */
  readonly tooLarge?: true;
}

export type RequestFailure = StatusFailure | NetworkFailure;

const MAX_MESSAGE_LENGTH = 500;
/** undici's error code for a body above `maxResponseSize`. */
const TOO_LARGE = 'UND_ERR_RES_EXCEEDED_MAX_SIZE';

/** `HTTP 403 Forbidden: pods is forbidden …`, or the network's message. */
export function describeFailure(failure: RequestFailure): string {
  if (failure.kind === 'network') return failure.message;
  const name = failure.reason === '' ? '' : ` ${failure.reason}`;
  return `HTTP ${failure.code}${name}: ${failure.message}`;
}

/**
 * Parses an error answer to a request for `path`; `retryAfter` is the header. Quotes only a
 * Kubernetes `Status`: any other body could contain anything. A 404 without a `Status` means that
 * the API server does not serve the path's group or resource.
 */
export function statusFailure(
  code: number,
  body: unknown,
  { path = '', retryAfter }: { readonly path?: string; readonly retryAfter?: string } = {},
): StatusFailure {
  const status = isRecord(body) && body['kind'] === 'Status' ? body : {};
  const message = status['message'];
  const retryAfterMs = parseRetryAfter(retryAfter);
  const unexplained = code === 404 ? notServed(path) : 'no message';
  return {
    kind: 'status',
    code,
    reason: typeof status['reason'] === 'string' ? status['reason'] : '',
    message: typeof message === 'string' && message !== '' ? oneLine(message) : unexplained,
    retryAfterMs,
  };
}

/** How to fix it when the API server does not serve a group. */
const INSTALL: Readonly<Record<string, string>> = {
  'metrics.k8s.io': 'install metrics-server',
  'meterfeed.io': 'apply the CustomResourceDefinitions of meterfeed',
};

function notServed(path: string): string {
  const [, group = ''] = /^\/apis\/([^/?]+)/.exec(path) ?? [];
  const what = group === '' ? path.split('?', 1)[0] : group;
  const fix = INSTALL[group] ?? 'install what serves it';
  return `the API server does not serve ${what}; ${fix}`;
}

/**
 * Describes a network error in one line. Messages of errors with a code come from Node or undici:
 * they contain addresses, never headers or bodies.
 */
export function networkFailure(error: unknown): NetworkFailure {
  const cause = rootCause(error);
  if (!(cause instanceof Error)) return { kind: 'network', message: 'unknown failure' };
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined;
  const message = code === undefined ? cause.name : `${oneLine(cause.message)} (${code})`;
  if (code === TOO_LARGE) return { kind: 'network', message, tooLarge: true };
  return { kind: 'network', message };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, MAX_MESSAGE_LENGTH);
}

function rootCause(error: unknown): unknown {
  let current = error;
  for (let depth = 0; depth < 5; depth += 1) {
    if (!(current instanceof Error) || current.cause === undefined) return current;
    current = current.cause;
  }
  return current;
}

/** Milliseconds of a `Retry-After` header in seconds; Kubernetes never uses the HTTP date. */
function parseRetryAfter(header: string | undefined): number | undefined {
  if (header === undefined || !/^\d{1,6}$/.test(header.trim())) return undefined;
  return Number(header) * 1000;
}
