import { createHmac } from 'node:crypto';
import { growingWaits, type WebhookMessage } from '../webhook-outbox.ts';
import type { Notice, StripeState } from './state.ts';

const HOUR_MS = 3_600_000;
const API_VERSION = '2026-09-30.endive';

/**
 * Waits between attempts: for three days in live mode, three times within hours in a sandbox.
 * Stripe does not document the waits themselves (https://docs.stripe.com/webhooks#retries).
 */
export const STRIPE_WAITS = {
  live: growingWaits({
    firstMs: HOUR_MS / 12,
    factor: 2,
    longestMs: 12 * HOUR_MS,
    withinMs: 72 * HOUR_MS,
  }),
  sandbox: [HOUR_MS, 2 * HOUR_MS],
} as const;

export function stripeMessage({ id, type, created, object }: Notice): WebhookMessage {
  const payload = {
    id,
    object: 'event',
    api_version: API_VERSION,
    created,
    type,
    data: { object },
    livemode: false,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
  };
  return { id, type, at: created * 1000, payload };
}

export function stripeHeaders(secret: string, body: string, at: number): Record<string, string> {
  const seconds = Math.floor(at / 1000);
  const signature = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
  return { 'stripe-signature': `t=${seconds},v1=${signature}` };
}

/**
 * Delays a draft until its `invoice.created` is acknowledged, for three days at most (`cycles.ts`).
 */
export function delayDraft(state: StripeState, message: WebhookMessage, isTaken: boolean): void {
  if (message.type !== 'invoice.created') return;
  const notice = state.notices.find(({ id }) => id === message.id);
  const { object } = notice ?? {};
  const id =
    typeof object === 'object' && object !== null && 'id' in object ? object.id : undefined;
  if (typeof id !== 'string') return;
  if (isTaken) state.unacknowledged.delete(id);
  else state.unacknowledged.add(id);
}
