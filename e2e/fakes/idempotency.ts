import type { FakeRequest, FakeResponse } from './fake-server.ts';

const MEMORY_MS = 86_400_000;
const TOO_MANY_REQUESTS = 429;

/** The answer to a request with an idempotency key; `at` in milliseconds since the epoch. */
export interface StoredResult {
  /** Method, path and body. */
  readonly request: string;
  readonly response: FakeResponse;
  readonly at: number;
}

/**
 * Returns the answer to the same key in the last day; `conflict` where it belongs to another
 * request.
 */
export function storedResult(
  results: ReadonlyMap<string, StoredResult>,
  request: FakeRequest,
  at: number,
  conflict: FakeResponse,
): FakeResponse | undefined {
  const key = keyOf(request);
  const stored = key === undefined ? undefined : results.get(key);
  if (stored === undefined || at - stored.at >= MEMORY_MS) return undefined;
  return stored.request === fingerprint(request) ? stored.response : conflict;
}

/** Stores the answer to a key, unless the rate limit gave it. */
export function storeResult(
  results: Map<string, StoredResult>,
  request: FakeRequest,
  response: FakeResponse,
  at: number,
): void {
  const key = keyOf(request);
  if (key === undefined || response.status === TOO_MANY_REQUESTS) return;
  results.set(key, { request: fingerprint(request), response, at });
}

function keyOf({ method, headers }: FakeRequest): string | undefined {
  return method === 'POST' ? headers['idempotency-key'] : undefined;
}

function fingerprint({ method, path, body }: FakeRequest): string {
  return `${method} ${path} ${body}`;
}
