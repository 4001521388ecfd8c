import type { BillingState } from '../../settings/settings.ts';
import type { Secret } from '../../model/secret.ts';
import {
  type Alert,
  ALERT_SUBJECT,
  type AlertCustomer,
  idAt,
  instantAt,
  jsonObject,
  type ParsedAlert,
  reasonText,
} from '../alerts.ts';
import type { AlertsDefinition } from '../definition.ts';
import { type JsonObject, objectOf, textOf, textsOf } from '../json.ts';
import { dataOfJwt, isJwt } from './jwt.ts';
import { anyMatches, hmac, type SignedRequest, type Verification } from '../signatures.ts';

const HEADER = 'X-Lago-Signature';
const ALGORITHM_HEADER = 'X-Lago-Signature-Algorithm';
const KEY_HEADER = 'X-Lago-Unique-Key';
/** 32 bytes in base64. */
const SIGNATURE = /^[A-Za-z0-9+/]{43}=$/;
const UNIQUE_KEY = /^[!-~]{1,256}$/;

/**
 * Verifies a base64 HMAC over the body (docs/how-to/enforcement.md#setting-up-the-billing-systems).
 * The signature has no time, so the request must have a unique key to recognise repeats.
 */
function verify(request: SignedRequest, secrets: readonly Secret[]): Verification {
  const algorithm = algorithmOf(request);
  if (algorithm !== 'hmac') {
    return { kind: 'unsigned', reason: `neither hmac nor jwt: ${ALGORITHM_HEADER} header` };
  }
  const signature = request.header(HEADER);
  if (signature === undefined || !SIGNATURE.test(signature)) {
    return { kind: 'unsigned', reason: `missing or not an HMAC in base64: ${HEADER} header` };
  }
  if (!hasUniqueKey(request)) return NO_UNIQUE_KEY;
  const expected = secrets.map((secret) => hmac(secret, request.body));
  const matches = anyMatches([Buffer.from(signature, 'base64')], expected);
  return matches ? { kind: 'signed' } : { kind: 'refused' };
}

/**
 * Verifies a JWT of Lago's own key with the complete body as its data. This is Lago's default
 * signature. It has no time either.
 */
function verifyJwt(request: SignedRequest, keys: readonly string[]): Verification {
  const token = request.header(HEADER);
  if (token === undefined || !isJwt(token)) {
    return { kind: 'unsigned', reason: `missing or not a JWT: ${HEADER} header` };
  }
  if (!hasUniqueKey(request)) return NO_UNIQUE_KEY;
  const data = dataOfJwt(token, keys);
  const isBody = data !== undefined && Buffer.from(data).equals(request.body);
  return isBody ? { kind: 'signed' } : { kind: 'refused' };
}

const NO_UNIQUE_KEY: Verification = { kind: 'unsigned', reason: `missing: ${KEY_HEADER} header` };

function hasUniqueKey(request: SignedRequest): boolean {
  return UNIQUE_KEY.test(request.header(KEY_HEADER) ?? '');
}

function algorithmOf(request: SignedRequest): string {
  return request.header(ALGORITHM_HEADER)?.toLowerCase() ?? 'hmac';
}

/** The prefix of the destination's subscriptions (docs/how-to/destinations/lago.md#tenants). */
const SUBSCRIPTION_PREFIX = 'sub-';

/** Types with a state that needs no rule, and the prefix of their subject. */
const TYPES: Readonly<Record<string, { readonly state: BillingState; readonly kind: string }>> = {
  'alert.triggered': { state: 'warning', kind: ALERT_SUBJECT },
  'subscription.usage_threshold_reached': { state: 'warning', kind: `${ALERT_SUBJECT}threshold/` },
  'wallet.depleted_ongoing_balance': { state: 'warning', kind: `${ALERT_SUBJECT}wallet/` },
  'invoice.payment_failure': { state: 'delinquent', kind: 'invoice/' },
  'invoice.payment_overdue': { state: 'delinquent', kind: 'invoice/' },
  'invoice.voided': { state: 'active', kind: 'invoice/' },
  'dunning_campaign.finished': { state: 'suspended', kind: 'dunning' },
};

/** Types about invoices and payment requests, which cover all overdue invoices of a customer. */
const PAYMENT_STATUS = /^(invoice|payment_request)\.payment_status_updated$/;

/**
 * Reads a webhook of Lago (https://docs.getlago.com): `{webhook_type, object_type, <object_type>:
 * {...}}`. The external id of its customers is the tenant's id. Most messages have no time.
 */
function parse(body: Uint8Array, uniqueKey: string): ParsedAlert {
  const message = jsonObject(body);
  const type = message && idAt(message, 'webhook_type');
  const objectType = message && textOf(message, 'object_type');
  if (message === undefined || type === undefined || objectType === undefined) {
    const reason = 'not a Lago webhook: body: webhook_type or object_type is missing';
    return { kind: 'malformed', reason };
  }
  const object = objectOf(message, objectType);
  if (type === 'events.errors') return eventErrors(uniqueKey, object);
  const at = instantAt(object, 'triggered_at');
  const alert = alertAbout({ id: uniqueKey, type, object, at });
  if (alert === undefined) return { kind: 'irrelevant', reason: `${type} names no customer` };
  return { kind: 'alert', alert };
}

/**
 * Errors of events of the previous clock hour that no invoice will have, with Lago's meaning. Lago
 * also reports events with unknown filter values, but bills them at the charge's own price.
 */
const LOST: Readonly<Record<string, string>> = {
  invalid_code: 'no billable metric has their code',
  missing_aggregation_property:
    'the property that their billable metric sums is missing or no number',
};

/** Reads Lago's hourly report for the complete organisation: ids of events, by error. */
function eventErrors(id: string, errors: JsonObject): ParsedAlert {
  const refusals = Object.entries(LOST).flatMap(([code, meaning]) => {
    const [example, ...others] = textsOf(errors, code);
    if (example === undefined) return [];
    const reason = `${code}: ${meaning}`;
    return [{ events: 1 + others.length, reason, example: reasonText(example) }];
  });
  if (refusals.length === 0) return { kind: 'irrelevant', reason: 'all of its events are billed' };
  return { kind: 'refusals', report: { provider: 'lago', id, refusals } };
}

/** Reads the alert of a webhook type about its object; undefined if that names no customer. */
export function alertAbout(message: {
  readonly id: string;
  readonly type: string;
  readonly object: JsonObject;
  readonly at?: number;
}): Alert | undefined {
  const { type, object, ...dated } = message;
  const customer = customerOf(object);
  if (customer.tenant === undefined) return undefined;
  return { provider: 'lago', type, ...dated, customer, ...meaningOf(type, object) };
}

function meaningOf(
  type: string,
  object: JsonObject,
): Pick<Alert, 'subject' | 'state' | 'settles' | 'reason'> {
  if (PAYMENT_STATUS.test(type)) return paymentMeaning(type, object);
  const known = TYPES[type];
  if (known === undefined) return { subject: `event/${type}`, reason: type };
  const reason = reasonText(textOf(object, 'alert_name') ?? textOf(object, 'alert_code') ?? type);
  return { subject: subjectOf(known.kind, object), state: known.state, reason };
}

function paymentMeaning(type: string, object: JsonObject) {
  const status = textOf(object, 'payment_status') ?? '';
  const isRequest = type.startsWith('payment_request.');
  const subject = isRequest ? 'dunning' : subjectOf('invoice/', object);
  const reason = reasonText(`${type}: ${status}`);
  if (status === 'failed') return { subject, state: 'delinquent', reason } as const;
  if (status !== 'succeeded') return { subject, reason };
  return { subject, state: 'active', settles: isRequest ? 'all' : 'alerts', reason } as const;
}

function subjectOf(kind: string, object: JsonObject): string {
  if (!kind.endsWith('/')) return kind;
  const id =
    idAt(object, 'lago_alert_id') ??
    idAt(object, 'lago_invoice_id') ??
    idAt(object, 'lago_id') ??
    idAt(object, 'external_id');
  return `${kind}${id ?? 'any'}`;
}

function customerOf(object: JsonObject): AlertCustomer {
  const tenant =
    idAt(object, 'external_customer_id') ??
    idAt(objectOf(object, 'customer'), 'external_id') ??
    idAt(object, 'customer_external_id');
  if (tenant === undefined) return {};
  const subscription = idAt(object, 'external_subscription_id') ?? idAt(object, 'external_id');
  const certain = subscription === `${SUBSCRIPTION_PREFIX}${tenant}`;
  return { tenant, id: tenant, ...(certain && { certain }) };
}

/** Lago's messages to `/webhooks`. */
export const lagoAlerts: AlertsDefinition = {
  secretVariable: 'BILLING_C_WEBHOOK_SECRET',
  signsId: false,
  verify,
  publicKey: { isUsed: (request) => algorithmOf(request) === 'jwt', verify: verifyJwt },
  parse: ({ body, header }) => parse(body, header(KEY_HEADER) ?? ''),
};
