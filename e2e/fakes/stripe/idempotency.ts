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
 * Returns the earlier answer to the same key. Stored results are replayed, a stored 500 too
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

/** Stores a result, unless the request was refused before Stripe carried it out. */
export function storeCarriedOut(
  { results }: StripeState,
  request: FakeRequest,
  response: FakeResponse,
  at: number,
): void {
  const carriedOut = response.status < 400 || response.status >= 500;
  if (carriedOut) storeResult(results, request, response, at);
}
