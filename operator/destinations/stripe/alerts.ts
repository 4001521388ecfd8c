import type { BillingState } from '../../settings/settings.ts';
import type { Secret } from '../../model/secret.ts';
import {
  type Alert,
  ALERT_SUBJECT,
  type AlertCustomer,
  idAt,
  jsonObject,
  type ParsedAlert,
  reasonText,
  secondsAt,
  type Settlement,
} from '../alerts.ts';
import type { AlertsDefinition } from '../definition.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import {
  anyMatches,
  hmac,
  type SignedRequest,
  TOLERANCE_SECONDS,
  type Verification,
} from '../signatures.ts';
import { TENANT_KEY } from './customers.ts';

const HEADER = 'Stripe-Signature';
const TIME = /^t=(\d{1,12})$/;
const SIGNATURE = /^v1=([0-9a-f]{64})$/;
/** More signatures than anybody rotates secrets. */
const MOST_FIELDS = 20;

/**
 * Verifies `Stripe-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>...]` over `<t>.<body>`
 * (https://docs.stripe.com/webhooks). Unlike Stripe's own code it also refuses future times and two
 * times (docs/explanation/security.md#d-9).
 */
function verify(request: SignedRequest, secrets: readonly Secret[], now: number): Verification {
  const header = request.header(HEADER);
  if (header === undefined) return { kind: 'unsigned', reason: `missing: ${HEADER} header` };
  const fields = header.split(',', MOST_FIELDS + 1);
  const times = fields.flatMap((field) => TIME.exec(field)?.[1] ?? []);
  const signatures = fields.flatMap((field) => SIGNATURE.exec(field)?.[1] ?? []);
  const [time] = times;
  if (time === undefined || times.length > 1 || fields.length > MOST_FIELDS) {
    return { kind: 'unsigned', reason: `not of the form t=...,v1=...: ${HEADER} header` };
  }
  const expected = secrets.map((secret) => hmac(secret, `${time}.`, request.body));
  const matches = anyMatches(
    signatures.map((signature) => Buffer.from(signature, 'hex')),
    expected,
  );
  const inTime = Math.abs(Math.floor(now / 1000) - Number(time)) <= TOLERANCE_SECONDS;
  return matches && inTime ? { kind: 'signed' } : { kind: 'refused' };
}

const INVOICE_STATES: Readonly<Record<string, BillingState>> = {
  'invoice.payment_failed': 'delinquent',
  'invoice.paid': 'active',
  'invoice.payment_succeeded': 'active',
  'invoice.voided': 'active',
};
/** Types that prove a payment. Nobody owes a void invoice, but nobody paid it either. */
const PAYMENTS: readonly string[] = ['invoice.paid', 'invoice.payment_succeeded'];

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
 * Reads a snapshot event of Stripe (https://docs.stripe.com/api/events/object). The subject of a
 * subscription's invoice is the subscription, so that a payment clears the failure before it. The
 * subject of any other invoice is the invoice.
 */
function parse(body: Uint8Array): ParsedAlert {
  const event = jsonObject(body);
  const id = event && idAt(event, 'id');
  const type = event && idAt(event, 'type');
  if (event === undefined || id === undefined || type === undefined) {
    return { kind: 'malformed', reason: 'not a Stripe event: body: id or type is missing' };
  }
  const object = objectOf(objectOf(event, 'data'), 'object');
  const at = secondsAt(event, 'created');
  const alert = alertAbout({ id, type, object, at });
  if (alert === undefined) return { kind: 'irrelevant', reason: `${type} names no customer` };
  return { kind: 'alert', alert };
}

/** Returns the alert of an event type about an object; undefined if that names no customer. */
export function alertAbout({
  object,
  ...event
}: Pick<Alert, 'id' | 'type' | 'at'> & { readonly object: JsonObject }): Alert | undefined {
  const customer = customerOf(object);
  if (customer.id === undefined && customer.tenant === undefined) return undefined;
  return { provider: 'stripe', ...event, customer, ...meaningOf(event.type, object) };
}

function meaningOf(
  type: string,
  object: JsonObject,
): Pick<Alert, 'subject' | 'state' | 'settles' | 'ended' | 'reason'> {
  const subject = subjectOf(object);
  const invoiceState = INVOICE_STATES[type];
  if (invoiceState !== undefined) {
    // An invoice without a purpose is a payment for the complete customer.
    const settles: Settlement = subject === undefined ? 'all' : 'alerts';
    return {
      subject: subject ?? 'customer',
      state: invoiceState,
      ...(PAYMENTS.includes(type) && { settles }),
      reason: type,
    };
  }
  if (SUBSCRIPTION_TYPES.includes(type)) {
    const status =
      type === 'customer.subscription.deleted' ? 'canceled' : (textOf(object, 'status') ?? '');
    const state = SUBSCRIPTION_STATES[status];
    return {
      subject: subject ?? 'customer',
      state,
      ...(ENDED.includes(status) && { ended: true }),
      reason: reasonText(`${type}: ${status}`),
    };
  }
  if (type === 'billing.alert.triggered') {
    const alert = objectOf(object, 'alert');
    return {
      subject: `${ALERT_SUBJECT}${idAt(alert, 'id') ?? 'usage'}`,
      state: 'warning',
      reason: reasonText(textOf(alert, 'title') ?? type),
    };
  }
  return { subject: subject ?? `event/${type}`, reason: type };
}

/** Returns `subscription/<id>` for subscriptions and their invoices, else `<kind>/<id>`. */
function subjectOf(object: JsonObject): string | undefined {
  const kind = textOf(object, 'object');
  const id = idAt(object, 'id');
  const subscription = kind === 'subscription' ? id : subscriptionOfInvoice(object);
  if (subscription !== undefined) return `subscription/${subscription}`;
  return kind === undefined || id === undefined ? undefined : `${kind}/${id}`;
}

/**
 * Returns the subscription of an invoice. It is under `parent` in API versions from 2025 on, and at
 * the top in earlier ones.
 */
function subscriptionOfInvoice(invoice: JsonObject): string | undefined {
  const details = objectOf(objectOf(invoice, 'parent'), 'subscription_details');
  return referenceAt(details, 'subscription') ?? referenceAt(invoice, 'subscription');
}

function customerOf(object: JsonObject): AlertCustomer {
  const id =
    textOf(object, 'object') === 'customer' ? idAt(object, 'id') : referenceAt(object, 'customer');
  const tenant = [
    objectOf(object, 'metadata'),
    objectOf(objectOf(objectOf(object, 'parent'), 'subscription_details'), 'metadata'),
    objectOf(objectOf(object, 'subscription_details'), 'metadata'),
  ]
    .map((metadata) => idAt(metadata, TENANT_KEY))
    .find((named) => named !== undefined);
  return {
    id,
    ...(tenant !== undefined && { tenant, certain: true }),
  };
}

/** Reads an id, or the id of an expanded object. */
function referenceAt(parent: JsonObject, key: string): string | undefined {
  return idAt(parent, key) ?? idAt(objectOf(parent, key), 'id');
}

/** Stripe's messages to `/webhooks`. */
export const stripeAlerts: AlertsDefinition = {
  secretVariable: 'BILLING_A_WEBHOOK_SECRET',
  signsId: true,
  verify,
  parse: ({ body }) => parse(body),
};
