import { type HttpOutcome, isSuccess } from '../../outbound/http-client.ts';
import { retryAfterMs } from '../../outbound/retry-after.ts';

/** What an answer means for the whole call; `split` is a refusal that does not say of which event. */
export type CallOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'hold'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string };

const TRY_LATER = new Set([408, 425, 429]);
const TOO_LARGE = 413;
const REFUSED = new Set([400, TOO_LARGE, 422]);
const HINTS: Readonly<Record<number, string>> = {
  401: 'check the credentials in spec.webhook.headers (WEBHOOK_HEADERS)',
  403: 'check the credentials in spec.webhook.headers (WEBHOOK_HEADERS)',
  404: 'check spec.webhook.url (WEBHOOK_URL)',
  410: 'the endpoint is retired, set another spec.webhook.url (WEBHOOK_URL)',
  415: 'the endpoint does not take CloudEvents batches',
};

/**
 * Reads the answer of a webhook receiver (facts 4.3, 5). Any 2xx is delivered. What no batch can mend
 * (credentials, a retired endpoint, a redirect, an unknown format) holds the destination, so that a
 * wrong URL never turns events into dead letters. `where` is the request's method and path.
 */
export function classifyAnswer(outcome: HttpOutcome, where: string, now: number): CallOutcome {
  if (outcome.kind === 'failed') {
    return { kind: outcome.permanent ? 'hold' : 'retry', reason: outcome.reason };
  }
  const { status } = outcome;
  if (isSuccess(status)) return { kind: 'delivered' };
  const reason = `HTTP ${where}: status ${status}`;
  if (TRY_LATER.has(status) || status >= 500) {
    const afterMs = retryAfterMs(outcome.headers['retry-after'], now);
    return { kind: 'retry', reason, ...(afterMs !== undefined && { afterMs }) };
  }
  if (REFUSED.has(status)) return { kind: 'split', reason };
  if (status < 400) return { kind: 'hold', reason: `${reason}: redirects are not followed` };
  const hint = HINTS[status];
  return { kind: 'hold', reason: hint === undefined ? reason : `${reason}: ${hint}` };
}

/** Whether the receiver said that the body was too large. */
export function isTooLarge(outcome: HttpOutcome): boolean {
  return outcome.kind === 'response' && outcome.status === TOO_LARGE;
}
