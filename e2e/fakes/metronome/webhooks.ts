import { createHmac } from 'node:crypto';

/** A webhook as Metronome sends it. */
export interface SignedWebhook {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Signs the date's text and the raw body, a newline between them. */
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

/** An alert carries its particulars under `properties`. */
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

/** What tells of contracts is flat. */
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
