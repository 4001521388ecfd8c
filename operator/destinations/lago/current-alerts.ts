import type { Alert } from '../alerts.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { PublicKeyOutcome, CurrentAlertsOutcome } from '../destination.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import { alertAbout } from './alerts.ts';
import { rsaKey } from './jwt.ts';
import type { LagoClient } from './lago-client.ts';

const INVOICES = '/invoices';
const SUBJECT = /^invoice\/(.+)$/;
const OVERDUE = 'invoice.payment_overdue';
const FAILED = 'invoice.payment_failure';
/** Queries for unpaid invoices. */
const IN_TROUBLE = ['payment_overdue=true', 'payment_status=failed'];

/**
 * Finds customers with overdue or uncollectable invoices, and the state of requested invoices
 * (docs/how-to/enforcement.md#alerts-that-never-came). Each is reported like the webhook about it.
 */
export class LagoStatus {
  readonly #client: LagoClient;
  readonly #clock: Pick<Clock, 'now'>;

  constructor(client: LagoClient, clock: Pick<Clock, 'now'>) {
    this.#client = client;
    this.#clock = clock;
  }

  async current(requested: readonly string[], signal: AbortSignal): Promise<CurrentAlertsOutcome> {
    const now = this.#clock.now();
    const alerts = new Map<string, Alert>();
    const report = (invoice: JsonObject): void => {
      const reported = alertAbout({ id: 'poll', type: typeOf(invoice), object: invoice, at: now });
      if (reported === undefined) return;
      // The time of the payment is unknown, so this must not clear later alerts.
      const { settles: _, ...alert } = reported;
      alerts.set(alert.subject, { state: 'active', ...alert });
    };
    for (const filter of IN_TROUBLE) {
      const list = await this.#client.list(
        `${INVOICES}?status=finalized&${filter}`,
        'invoices',
        signal,
      );
      if (list.kind !== 'list') return { kind: 'failed', reason: list.reason };
      for (const invoice of list.items) report(invoice);
    }
    for (const subject of requested) {
      const id = SUBJECT.exec(subject)?.[1];
      if (id === undefined || alerts.has(subject)) continue;
      const answer = await this.#client.get(`${INVOICES}/${encodeURIComponent(id)}`, signal);
      // Invoices of another organisation belong to no customer here.
      if (answer.kind === 'refused') continue;
      if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
      report(objectOf(answer.body, 'invoice'));
    }
    return { kind: 'alerts', alerts: [...alerts.values()] };
  }

  async publicKey(signal: AbortSignal): Promise<PublicKeyOutcome> {
    const answer = await this.#client.get('/webhooks/json_public_key', signal);
    if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
    const encoded = textOf(objectOf(answer.body, 'webhook'), 'public_key') ?? '';
    const key = Buffer.from(encoded, 'base64').toString();
    if (rsaKey(key) !== undefined) return { kind: 'key', key };
    return {
      kind: 'failed',
      reason: 'Lago published no RSA key: /api/v1/webhooks/json_public_key',
    };
  }
}

/** Returns the webhook type that matches the state of an invoice. */
function typeOf(invoice: JsonObject): string {
  if (textOf(invoice, 'status') === 'voided') return 'invoice.voided';
  const payment = textOf(invoice, 'payment_status');
  if (invoice['payment_overdue'] === true && payment !== 'succeeded') return OVERDUE;
  return payment === 'failed' ? FAILED : 'invoice.payment_status_updated';
}
