import type { FakeRequest, FakeResponse } from './fake-server.ts';

const MEMORY_MS = 86_400_000;
const TOO_MANY_REQUESTS = 429;

/** What was answered to a request with an idempotency key; `at` in milliseconds since the epoch. */
export interface StoredResult {
  /** Method, path and body. */
  readonly request: string;
  readonly response: FakeResponse;
  readonly at: number;
}

/** What was answered to the same key in the last day; `conflict` where that was another request. */
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

/** Keeps what was answered to a key, unless the rate limit did. */
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
