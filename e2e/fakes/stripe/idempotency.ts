import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { storedResult, storeResult } from '../idempotency.ts';
import { failure } from './answers.ts';
import type { StripeState } from './state.ts';

const KEY_REUSED = failure(
  400,
  'idempotency_error',
  'Keys for idempotent requests can only be used with the same parameters they were first used with.',
);

/**
 * What was answered to the same key before: stored results are replayed, a stored 500 too
 * (docs/how-to/destinations/stripe.md#how-stripe-answers).
 */
export function replayed(
  { results }: StripeState,
  request: FakeRequest,
  at: number,
): FakeResponse | undefined {
  const stored = storedResult(results, request, at, KEY_REUSED);
  if (stored === undefined || stored === KEY_REUSED) return stored;
  return { ...stored, headers: { ...stored.headers, 'idempotent-replayed': 'true' } };
}

/** Keeps a result, unless the request was refused before it was carried out. */
export function storeCarriedOut(
  { results }: StripeState,
  request: FakeRequest,
  response: FakeResponse,
  at: number,
): void {
  const carriedOut = response.status < 400 || response.status >= 500;
  if (carriedOut) storeResult(results, request, response, at);
}
