import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { failure } from './answers.ts';
import type { StripeState } from './state.ts';

const MEMORY_MS = 86_400_000;
const TOO_MANY_REQUESTS = 429;

/**
 * What was answered to the same key before: stored results are replayed, a stored 500 too
 * (docs/destinations/stripe.md#how-stripe-answers).
 */
export function replayed(
  state: StripeState,
  request: FakeRequest,
  at: number,
): FakeResponse | undefined {
  const key = keyOf(request);
  const stored = key === undefined ? undefined : state.results.get(key);
  if (stored === undefined || at - stored.at >= MEMORY_MS) return undefined;
  if (stored.request === fingerprint(request)) {
    const headers = { ...stored.response.headers, 'idempotent-replayed': 'true' };
    return { ...stored.response, headers };
  }
  const said =
    'Keys for idempotent requests can only be used with the same parameters they were first used with.';
  return failure(400, 'idempotency_error', said);
}

/** Keeps a result, unless the request was refused before it was carried out. */
export function storeResult(
  state: StripeState,
  request: FakeRequest,
  response: FakeResponse,
  at: number,
): void {
  const key = keyOf(request);
  const carriedOut = response.status < 400 || response.status >= 500;
  if (key === undefined || !carriedOut || response.status === TOO_MANY_REQUESTS) return;
  state.results.set(key, { request: fingerprint(request), response, at });
}

function keyOf({ method, headers }: FakeRequest): string | undefined {
  return method === 'POST' ? headers['idempotency-key'] : undefined;
}

function fingerprint({ method, path, body }: FakeRequest): string {
  return `${method} ${path} ${body}`;
}
