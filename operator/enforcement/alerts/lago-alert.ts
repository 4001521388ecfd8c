import type { BillingState } from '../../config/settings.ts';
import { recordAt, textAt } from '../../discovery/object-reading.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import {
  type Alert,
  ALERT_SUBJECT,
  type AlertCustomer,
  type ParsedAlert,
  reasonText,
} from './alert.ts';
import { idAt, instantAt, jsonObject } from './body.ts';

/** The destination's subscriptions are named so (spec 1.3). */
const SUBSCRIPTION_PREFIX = 'sub-';

/** The types that have a state without any rule, and what their subject begins with. */
const TYPES: Readonly<Record<string, { readonly state: BillingState; readonly kind: string }>> = {
  'alert.triggered': { state: 'warning', kind: ALERT_SUBJECT },
  'subscription.usage_threshold_reached': { state: 'warning', kind: `${ALERT_SUBJECT}threshold/` },
  'wallet.depleted_ongoing_balance': { state: 'warning', kind: `${ALERT_SUBJECT}wallet/` },
  'invoice.payment_failure': { state: 'delinquent', kind: 'invoice/' },
  'invoice.payment_overdue': { state: 'delinquent', kind: 'invoice/' },
  'dunning_campaign.finished': { state: 'suspended', kind: 'dunning' },
};

/** Of invoices and of payment requests, which cover all overdue invoices of a customer at once. */
const PAYMENT_STATUS = /^(invoice|payment_request)\.payment_status_updated$/;

/**
 * A webhook of Lago (facts/destinations.md 1.5): `{webhook_type, object_type, <object_type>: {...}}`.
 * Its customers have the tenant's id as their external id. Most of its messages carry no time.
 */
export function parseLagoAlert(body: Uint8Array, uniqueKey: string): ParsedAlert {
  const message = jsonObject(body);
  const type = message && idAt(message, 'webhook_type');
  const objectType = message && textAt(message, 'object_type');
  if (message === undefined || type === undefined || objectType === undefined) {
    const reason = 'not a Lago webhook: body: webhook_type or object_type is missing';
    return { kind: 'malformed', reason };
  }
  const object = recordAt(message, objectType);
  const customer = customerOf(object);
  if (customer.tenant === undefined) {
    return { kind: 'irrelevant', reason: `${type} names no customer` };
  }
  const at = instantAt(object, 'triggered_at');
  const alert: Alert = {
    provider: 'lago',
    id: uniqueKey,
    type,
    ...(at !== undefined && { at }),
    customer,
    ...meaningOf(type, object),
  };
  return { kind: 'alert', alert };
}

function meaningOf(
  type: string,
  object: RawObject,
): Pick<Alert, 'subject' | 'state' | 'settles' | 'reason'> {
  if (PAYMENT_STATUS.test(type)) return paymentMeaning(type, object);
  const known = TYPES[type];
  if (known === undefined) return { subject: `event/${type}`, reason: type };
  const reason = reasonText(textAt(object, 'alert_name') ?? textAt(object, 'alert_code') ?? type);
  return { subject: subjectOf(known.kind, object), state: known.state, reason };
}

function paymentMeaning(type: string, object: RawObject) {
  const status = textAt(object, 'payment_status') ?? '';
  const isRequest = type.startsWith('payment_request.');
  const subject = isRequest ? 'dunning' : subjectOf('invoice/', object);
  const reason = reasonText(`${type}: ${status}`);
  if (status === 'failed') return { subject, state: 'delinquent', reason } as const;
  if (status !== 'succeeded') return { subject, reason };
  return { subject, state: 'active', settles: isRequest ? 'all' : 'alerts', reason } as const;
}

function subjectOf(kind: string, object: RawObject): string {
  if (!kind.endsWith('/')) return kind;
  const id =
    idAt(object, 'lago_alert_id') ??
    idAt(object, 'lago_invoice_id') ??
    idAt(object, 'lago_id') ??
    idAt(object, 'external_id');
  return `${kind}${id ?? 'any'}`;
}

function customerOf(object: RawObject): AlertCustomer {
  const tenant =
    idAt(object, 'external_customer_id') ??
    idAt(recordAt(object, 'customer'), 'external_id') ??
    idAt(object, 'customer_external_id');
  if (tenant === undefined) return {};
  const subscription = idAt(object, 'external_subscription_id') ?? idAt(object, 'external_id');
  const certain = subscription === `${SUBSCRIPTION_PREFIX}${tenant}`;
  return { tenant, ...(certain && { certain }) };
}
