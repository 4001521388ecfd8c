import type {
  DestinationDefaults,
  FromEnvironment,
  GivenEnvironment,
  VariableSet,
} from '../../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../../settings/custom-resources.generated.ts';
import { list } from '../../settings/parsers/lists.ts';
import { boolean, integer, matching } from '../../settings/parsers/scalars.ts';
import { secret, secrets } from '../../settings/parsers/credentials.ts';
import { baseUrl } from '../../settings/parsers/urls.ts';
import {
  baseUrlField,
  credentialField,
  currencyField,
  type SecretReads,
  type Translation,
} from '../../settings/spec-fields.ts';
import type { Secret } from '../../model/secret.ts';

export interface StripeSettings {
  readonly url: string;
  readonly apiKey: Secret;
  readonly apiVersion: string;
  readonly splitMetersBy: readonly string[];
  readonly autoSubscribe: boolean;
  readonly cancelOnRemove: boolean;
  readonly maxRequestsPerSecond: number;
  /** Send usage through the meter event stream, which requires a live key. */
  readonly meterEventStream?: boolean;
  readonly planCode: string;
  readonly currency: string;
  /** Payment of new subscriptions. Missing terms: the previous subscription's, or Stripe's. */
  readonly payment?: PaymentTerms;
  /** Day of the month on which new subscriptions are billed, in UTC; 31 is the last day. */
  readonly billingDay: number;
}

/** How a subscription's invoices are paid (https://docs.stripe.com/api/subscriptions/create). */
export interface PaymentTerms {
  readonly collectionMethod?: 'charge_automatically' | 'send_invoice';
  /** Only with `send_invoice`. */
  readonly daysUntilDue?: number;
  readonly automaticTax?: boolean;
  readonly defaultPaymentMethod?: string;
}

export type StripeSpec = NonNullable<BillingDestinationSpec['stripe']>;

const BILLING_TEST = 'operator/app/billing-variables.test.ts';
/** The address of the neutral spelling. It reaches no server until a user sets the real URL. */
const NEUTRAL_URL = 'https://api.billing-a.invalid';
/** Periods are calendar months, as at the other billing systems. */
const BILLING_DAY = 1;
export const STRIPE_URL = 'https://api.stripe.com';

const splitField = matching(
  /^[a-z][a-z0-9_]{0,63}$/,
  'an event field or dimension, such as `sku`',
  'not a field',
  'name a field or dimension of events, such as sku or capacity_type',
);

const apiVersion = matching(
  /^\d{4}-\d{2}-\d{2}(\.[a-z0-9_]+)?$/,
  'a date, with a release name',
  'not an API version',
  'write it as in 2026-09-30.endive',
);

export const STRIPE_VARIABLES = {
  BILLING_A_API_KEY: {
    meaning: 'Secret or restricted key. Required by `billing_a` and BILLING_B_STRIPE_LINK.',
    aliases: ['STRIPE_API_KEY'],
    parser: secret(),
    shown: 'masked',
    fields: ['BillingDestination spec.stripe.apiKeySecretRef'],
    test: BILLING_TEST,
  },
  BILLING_A_WEBHOOK_SECRET: {
    meaning: 'Verifies Stripe’s alerts at `/webhooks/billing_a`, which it enables.',
    aliases: ['STRIPE_WEBHOOK_SECRET'],
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.stripe.webhookSecretRefs'],
    test: 'operator/http/webhooks.test.ts',
  },
  BILLING_A_SPLIT_METERS_BY: {
    meaning: 'Fields by which meters are split.',
    aliases: ['STRIPE_SPLIT_METERS_BY'],
    parser: list(splitField),
    default: 'sku',
    fields: ['BillingDestination spec.stripe.splitMetersBy'],
    test: BILLING_TEST,
  },
  BILLING_A_AUTO_SUBSCRIBE: {
    meaning: 'Subscribe tenants to active metered prices with `metadata[vbilling_plan]=<plan>`.',
    aliases: ['STRIPE_AUTO_SUBSCRIBE'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.stripe.autoSubscribe'],
    test: BILLING_TEST,
  },
  BILLING_A_CANCEL_ON_REMOVE: {
    meaning: 'Cancel the subscription at period end when a tenant is offboarded.',
    aliases: ['STRIPE_CANCEL_ON_REMOVE'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.stripe.cancelOnRemove'],
    test: BILLING_TEST,
  },
  BILLING_A_MAX_RPS: {
    meaning: 'Meter events a second; 0 means 20 for test keys and 200 for live keys.',
    aliases: ['STRIPE_MAX_RPS'],
    parser: integer(0, 10_000),
    default: '0',
    fields: ['BillingDestination spec.stripe.maxRequestsPerSecond'],
    test: BILLING_TEST,
  },
  BILLING_A_API_VERSION: {
    meaning: 'API version of all requests.',
    aliases: ['STRIPE_API_VERSION'],
    parser: apiVersion,
    default: '2026-09-30.endive',
    fields: ['BillingDestination spec.stripe.apiVersion'],
    test: BILLING_TEST,
  },
  BILLING_A_API_BASE: {
    meaning: 'Address of the Stripe API.',
    aliases: ['STRIPE_API_BASE'],
    parser: baseUrl(),
    otherwise:
      '`https://api.billing-a.invalid` for `billing_a`, `https://api.stripe.com` for `stripe`',
    shown: 'url',
    fields: ['BillingDestination spec.stripe.url'],
    test: BILLING_TEST,
  },
} as const satisfies VariableSet;

/** Returns the URL and the key of the account; undefined without a key. */
export function stripeAccess(valuesOf: GivenEnvironment['valuesOf'], isNeutral: boolean) {
  const values = valuesOf(STRIPE_VARIABLES);
  const { BILLING_A_API_KEY: apiKey, BILLING_A_API_VERSION: version } = values;
  if (apiKey === undefined) return undefined;
  const url = values.BILLING_A_API_BASE ?? (isNeutral ? NEUTRAL_URL : STRIPE_URL);
  return { url, apiKey, apiVersion: version };
}

export function stripeFromEnvironment({
  spelling,
  defaults,
  valuesOf,
}: GivenEnvironment): FromEnvironment<StripeSettings> {
  const access = stripeAccess(valuesOf, spelling !== 'stripe');
  if (access === undefined) return { kind: 'missing', variable: 'BILLING_A_API_KEY' };
  const values = valuesOf(STRIPE_VARIABLES);
  const options = {
    ...access,
    splitMetersBy: values.BILLING_A_SPLIT_METERS_BY,
    autoSubscribe: values.BILLING_A_AUTO_SUBSCRIBE,
    cancelOnRemove: values.BILLING_A_CANCEL_ON_REMOVE,
    maxRequestsPerSecond: values.BILLING_A_MAX_RPS,
    planCode: defaults.planCode,
    currency: defaults.currency,
    billingDay: BILLING_DAY,
  };
  return { kind: 'options', options };
}

export function stripeFromSpec(
  spec: StripeSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<StripeSettings> {
  const url = baseUrlField('spec.stripe.url', spec.url ?? STRIPE_URL);
  if (url.kind === 'invalid') return url;
  const apiKey = credentialField('spec.stripe.apiKeySecretRef', spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  const currency = currencyField('spec.stripe.currency', spec.currency ?? defaults.currency);
  if (currency.kind === 'invalid') return currency;
  return {
    kind: 'settings',
    settings: {
      url: url.value,
      apiKey: apiKey.value,
      apiVersion: spec.apiVersion ?? STRIPE_VARIABLES.BILLING_A_API_VERSION.default,
      splitMetersBy: spec.splitMetersBy ?? [STRIPE_VARIABLES.BILLING_A_SPLIT_METERS_BY.default],
      autoSubscribe: spec.autoSubscribe ?? false,
      cancelOnRemove: spec.cancelOnRemove ?? false,
      maxRequestsPerSecond: spec.maxRequestsPerSecond ?? 0,
      meterEventStream: spec.meterEventStream,
      planCode: spec.planCode ?? defaults.planCode,
      currency: currency.value,
      payment: paymentOf(spec),
      billingDay: spec.billingDay ?? BILLING_DAY,
    },
  };
}

function paymentOf({ collectionMethod, daysUntilDue, automaticTax }: StripeSpec): PaymentTerms {
  const isSent = collectionMethod === 'send_invoice';
  return {
    collectionMethod,
    automaticTax,
    daysUntilDue: isSent ? daysUntilDue : undefined,
  };
}
