import { createHmac } from 'node:crypto';
import { growingWaits, type WebhookMessage } from '../webhook-outbox.ts';
import type { Notice } from './state.ts';

/** A webhook as Metronome sends it. */
export interface SignedWebhook {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Signs the date's text, a newline and the raw body. */
export function signWebhook(secret: string, payload: unknown, at: Date): SignedWebhook {
  const body = JSON.stringify(payload);
  const date = at.toUTCString();
  const signature = createHmac('sha256', secret).update(`${date}\n${body}`).digest('hex');
  return {
    headers: {
      'content-type': 'application/json',
      date,
      'x-metronome-date': date,
      'metronome-webhook-signature': signature,
    },
    body,
  };
}

/** Returns an alert. Its details are under `properties`. */
export function alert(id: string, type: string, customerId: string, at: Date) {
  return {
    id,
    type: `alerts.${type}`,
    properties: {
      customer_id: customerId,
      alert_id: 'a1e47000-0000-4000-8000-000000000001',
      alert_name: 'Spend',
      timestamp: at.toISOString(),
      threshold: 10_000,
      current_spend: 10_050,
    },
  };
}

/** Returns a message about a contract, which is flat. */
export function lifecycle(id: string, type: string, customerId: string, at: Date) {
  return {
    id,
    type,
    customer_id: customerId,
    contract_id: 'c0174000-0000-4000-8000-000000000001',
    timestamp: at.toISOString(),
    environment_type: 'SANDBOX',
  };
}

/**
 * Waits that grow up to 15 minutes, for two days: about 200 attempts
 * (https://docs.metronome.com/developer-resources/webhooks/).
 */
export const METRONOME_WAITS: readonly number[] = growingWaits({
  firstMs: 5_000,
  factor: 2,
  longestMs: 900_000,
  withinMs: 2 * 86_400_000,
});

/** Returns a message about an invoice or a contract, which is flat. */
export function metronomeMessage({ id, type, at, about }: Notice): WebhookMessage {
  const timestamp = new Date(at).toISOString();
  const payload = { id, type, timestamp, environment_type: 'SANDBOX', ...about };
  return { id, type, at, payload };
}
