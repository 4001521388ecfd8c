import type { BillingState } from '../../config/settings.ts';
import { recordAt, textAt } from '../../discovery/object-reading.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import {
  type Alert,
  ALERT_SUBJECT,
  type AlertCustomer,
  type ParsedAlert,
  reasonText,
  type Settlement,
} from './alert.ts';
import { idAt, jsonObject, secondsAt } from './body.ts';

/** Written on customers and subscriptions by the destination (design 1). */
const TENANT_METADATA = 'vbilling_tenant_id';

const INVOICE_STATES: Readonly<Record<string, BillingState>> = {
  'invoice.payment_failed': 'delinquent',
  'invoice.paid': 'active',
  'invoice.payment_succeeded': 'active',
};

const SUBSCRIPTION_TYPES: readonly string[] = [
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.resumed',
  'customer.subscription.deleted',
];

const SUBSCRIPTION_STATES: Readonly<Record<string, BillingState>> = {
  active: 'active',
  trialing: 'active',
  past_due: 'delinquent',
  unpaid: 'suspended',
  canceled: 'suspended',
  incomplete_expired: 'suspended',
};

const ENDED: readonly string[] = ['canceled', 'incomplete_expired'];

/**
 * A snapshot event of Stripe (facts/destinations.md 2.7). Invoices of a subscription speak of that
 * subscription, so that a payment ends what its failure began; an invoice of its own speaks of itself.
 */
export function parseStripeAlert(body: Uint8Array): ParsedAlert {
  const event = jsonObject(body);
  const id = event && idAt(event, 'id');
  const type = event && idAt(event, 'type');
  if (event === undefined || id === undefined || type === undefined) {
    return { kind: 'malformed', reason: 'not a Stripe event: body: id or type is missing' };
  }
  const object = recordAt(recordAt(event, 'data'), 'object');
  const customer = customerOf(object);
  if (customer.id === undefined && customer.tenant === undefined) {
    return { kind: 'irrelevant', reason: `${type} names no customer` };
  }
  const at = secondsAt(event, 'created');
  const alert: Alert = {
    provider: 'stripe',
    id,
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
): Pick<Alert, 'subject' | 'state' | 'settles' | 'ended' | 'reason'> {
  const subject = subjectOf(object);
  const invoiceState = INVOICE_STATES[type];
  if (invoiceState !== undefined) {
    // An invoice that does not say what it is for is a payment by the customer as a whole.
    const settles: Settlement = subject === undefined ? 'all' : 'alerts';
    return {
      subject: subject ?? 'customer',
      state: invoiceState,
      ...(invoiceState === 'active' && { settles }),
      reason: type,
    };
  }
  if (SUBSCRIPTION_TYPES.includes(type)) {
    const status =
      type === 'customer.subscription.deleted' ? 'canceled' : (textAt(object, 'status') ?? '');
    const state = SUBSCRIPTION_STATES[status];
    return {
      subject: subject ?? 'customer',
      ...(state !== undefined && { state }),
      ...(ENDED.includes(status) && { ended: true }),
      reason: reasonText(`${type}: ${status}`),
    };
  }
  if (type === 'billing.alert.triggered') {
    const alert = recordAt(object, 'alert');
    return {
      subject: `${ALERT_SUBJECT}${idAt(alert, 'id') ?? 'usage'}`,
      state: 'warning',
      reason: reasonText(textAt(alert, 'title') ?? type),
    };
  }
  return { subject: subject ?? `event/${type}`, reason: type };
}

/** `subscription/<id>` for a subscription and its invoices, else `<kind>/<id>`; undefined when the object says neither. */
function subjectOf(object: RawObject): string | undefined {
  const kind = textAt(object, 'object');
  const id = idAt(object, 'id');
  const subscription = kind === 'subscription' ? id : subscriptionOfInvoice(object);
  if (subscription !== undefined) return `subscription/${subscription}`;
  return kind === undefined || id === undefined ? undefined : `${kind}/${id}`;
}

/** API versions from 2025 on have it under `parent`; earlier ones at the top. */
function subscriptionOfInvoice(invoice: RawObject): string | undefined {
  const details = recordAt(recordAt(invoice, 'parent'), 'subscription_details');
  return referenceAt(details, 'subscription') ?? referenceAt(invoice, 'subscription');
}

function customerOf(object: RawObject): AlertCustomer {
  const id =
    textAt(object, 'object') === 'customer' ? idAt(object, 'id') : referenceAt(object, 'customer');
  const tenant = [
    recordAt(object, 'metadata'),
    recordAt(recordAt(recordAt(object, 'parent'), 'subscription_details'), 'metadata'),
    recordAt(recordAt(object, 'subscription_details'), 'metadata'),
  ]
    .map((metadata) => idAt(metadata, TENANT_METADATA))
    .find((named) => named !== undefined);
  return {
    ...(id !== undefined && { id }),
    ...(tenant !== undefined && { tenant, certain: true }),
  };
}

/** An id, or the id of an expanded object. */
function referenceAt(parent: RawObject, key: string): string | undefined {
  return idAt(parent, key) ?? idAt(recordAt(parent, key), 'id');
}
