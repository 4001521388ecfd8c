import type { Alert } from '../alerts.ts';
import type { CurrentAlertsOutcome } from '../destination.ts';
import type { ApiList } from '../json-api/answer.ts';
import { type JsonObject, textOf } from '../json.ts';
import { alertAbout } from './alerts.ts';
import type { StripeClient } from './stripe-client.ts';

const SUBSCRIPTIONS = '/v1/subscriptions';
const INVOICES = '/v1/invoices';
const SUBJECT = /^(subscription|invoice)\/(.+)$/;
/** In which a subscription's customer does not pay, or not any more. */
const IN_TROUBLE = ['past_due', 'unpaid'];
const ENDED: readonly string[] = ['canceled', 'incomplete_expired'];

/**
 * Which customers do not pay, and how the subscriptions and invoices stand that were asked about
 * (docs/how-to/enforcement.md#alerts-that-never-came). An invoice that is open after an attempt to collect it, or
 * after its due date, is spoken of as by the alert that its payment failed.
 */
export async function statusAtStripe(
  client: StripeClient,
  requested: readonly string[],
  now: number,
  signal: AbortSignal,
): Promise<CurrentAlertsOutcome> {
  const alerts = new Map<string, Alert>();
  const say = (type: string, object: JsonObject): void => {
    const reported = alertAbout({ id: 'poll', type, object, at: now });
    if (reported === undefined) return;
    // When it was paid is not said: it must not settle what came after that.
    const { settles: _, ...alert } = reported;
    alerts.set(alert.subject, alert);
  };
  const lists: ApiList[] = [];
  for (const subject of requested) {
    const [, kind, id] = SUBJECT.exec(subject) ?? [];
    if (kind === undefined || id === undefined) continue;
    const path = `${kind === 'invoice' ? INVOICES : SUBSCRIPTIONS}/${encodeURIComponent(id)}`;
    const answer = await client.get(path, {}, signal);
    // One of another account, or of the other mode, is nobody's here.
    if (answer.kind === 'refused') continue;
    if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
    const { body } = answer;
    say(kind === 'invoice' ? typeOf(body, now) : typeOfSubscription(body), body);
    const customer = textOf(body, 'customer');
    // One that has ended suspends nobody who has another that runs.
    const hasEnded = kind === 'subscription' && ENDED.includes(textOf(body, 'status') ?? '');
    if (hasEnded) lists.push(await client.list(SUBSCRIPTIONS, { customer }, signal));
  }
  for (const status of IN_TROUBLE) {
    lists.push(await client.list(SUBSCRIPTIONS, { status }, signal));
  }
  for (const list of lists) {
    if (list.kind !== 'list') return { kind: 'failed', reason: list.reason };
    for (const object of list.items) say(typeOfSubscription(object), object);
  }
  const open = await client.list(INVOICES, { status: 'open' }, signal);
  if (open.kind !== 'list') return { kind: 'failed', reason: open.reason };
  for (const invoice of open.items) {
    const type = typeOf(invoice, now);
    const reported = alertAbout({ id: 'poll', type, object: invoice, at: now });
    const known = alerts.get(reported?.subject ?? '');
    // What is said of its subscription already is at least as grave, unless that is in order.
    const isGraver = known === undefined || known.state === 'active';
    if (type === FAILED && isGraver) say(type, invoice);
  }
  return { kind: 'standing', alerts: [...alerts.values()] };
}

const FAILED = 'invoice.payment_failed';

function typeOfSubscription(subscription: JsonObject): string {
  const isCanceled = textOf(subscription, 'status') === 'canceled';
  return isCanceled ? 'customer.subscription.deleted' : 'customer.subscription.updated';
}

/** The alert that says how an invoice stands. */
function typeOf(invoice: JsonObject, now: number): string {
  const status = textOf(invoice, 'status');
  if (status === 'paid') return 'invoice.paid';
  if (status === 'void') return 'invoice.voided';
  if (status === 'uncollectible') return 'invoice.marked_uncollectible';
  const due = Number(invoice['due_date'] ?? 0);
  const isOverdue = due > 0 ? due * 1000 < now : Number(invoice['attempt_count'] ?? 0) > 0;
  return status === 'open' && isOverdue ? FAILED : 'invoice.finalized';
}
