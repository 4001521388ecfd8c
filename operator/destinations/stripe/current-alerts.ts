import type { Alert } from '../alerts.ts';
import type { CurrentAlertsOutcome } from '../destination.ts';
import type { ApiList } from '../json-api/answer.ts';
import { type JsonObject, textOf } from '../json.ts';
import { alertAbout } from './alerts.ts';
import type { StripeClient } from './stripe-client.ts';

const SUBSCRIPTIONS = '/v1/subscriptions';
const INVOICES = '/v1/invoices';
const SUBJECT = /^(subscription|invoice)\/(.+)$/;
/** Statuses of subscriptions whose customer does not pay. */
const IN_TROUBLE = ['past_due', 'unpaid'];
const ENDED: readonly string[] = ['canceled', 'incomplete_expired'];

/**
 * Finds customers who do not pay, and the state of requested subscriptions and invoices
 * (docs/how-to/enforcement.md#alerts-that-never-came). An invoice that is open after an attempt to
 * collect it, or after its due date, is reported as a failed payment.
 */
export async function statusAtStripe(
  client: StripeClient,
  requested: readonly string[],
  now: number,
  signal: AbortSignal,
): Promise<CurrentAlertsOutcome> {
  const alerts = new Map<string, Alert>();
  const report = (type: string, object: JsonObject): void => {
    const reported = alertAbout({ id: 'poll', type, object, at: now });
    if (reported === undefined) return;
    // The time of the payment is unknown, so this must not clear later alerts.
    const { settles: _, ...alert } = reported;
    alerts.set(alert.subject, alert);
  };
  const lists: ApiList[] = [];
  for (const subject of requested) {
    const [, kind, id] = SUBJECT.exec(subject) ?? [];
    if (kind === undefined || id === undefined) continue;
    const path = `${kind === 'invoice' ? INVOICES : SUBSCRIPTIONS}/${encodeURIComponent(id)}`;
    const answer = await client.get(path, {}, signal);
    // Objects of another account or of the other mode belong to no customer here.
    if (answer.kind === 'refused') continue;
    if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
    const { body } = answer;
    report(kind === 'invoice' ? typeOf(body, now) : typeOfSubscription(body), body);
    const customer = textOf(body, 'customer');
    // A subscription that has ended must not suspend a customer who has another one.
    const hasEnded = kind === 'subscription' && ENDED.includes(textOf(body, 'status') ?? '');
    if (hasEnded) lists.push(await client.list(SUBSCRIPTIONS, { customer }, signal));
  }
  for (const status of IN_TROUBLE) {
    lists.push(await client.list(SUBSCRIPTIONS, { status }, signal));
  }
  for (const list of lists) {
    if (list.kind !== 'list') return { kind: 'failed', reason: list.reason };
    for (const object of list.items) report(typeOfSubscription(object), object);
  }
  const open = await client.list(INVOICES, { status: 'open' }, signal);
  if (open.kind !== 'list') return { kind: 'failed', reason: open.reason };
  for (const invoice of open.items) {
    const type = typeOf(invoice, now);
    const reported = alertAbout({ id: 'poll', type, object: invoice, at: now });
    const known = alerts.get(reported?.subject ?? '');
    // Keep the alert of the subscription, unless it is in order and this one is graver.
    const isGraver = known === undefined || known.state === 'active';
    if (type === FAILED && isGraver) report(type, invoice);
  }
  return { kind: 'alerts', alerts: [...alerts.values()] };
}

const FAILED = 'invoice.payment_failed';

function typeOfSubscription(subscription: JsonObject): string {
  const isCanceled = textOf(subscription, 'status') === 'canceled';
  return isCanceled ? 'customer.subscription.deleted' : 'customer.subscription.updated';
}

/** Returns the alert type that matches the state of an invoice. */
function typeOf(invoice: JsonObject, now: number): string {
  const status = textOf(invoice, 'status');
  if (status === 'paid') return 'invoice.paid';
  if (status === 'void') return 'invoice.voided';
  if (status === 'uncollectible') return 'invoice.marked_uncollectible';
  const due = Number(invoice['due_date'] ?? 0);
  const isOverdue = due > 0 ? due * 1000 < now : Number(invoice['attempt_count'] ?? 0) > 0;
  return status === 'open' && isOverdue ? FAILED : 'invoice.finalized';
}
