import { headers } from '../parsers/headers.ts';
import { list } from '../parsers/lists.ts';
import { boolean, choice, currency, integer, matching, text } from '../parsers/scalars.ts';
import { secret, secrets } from '../parsers/secrets.ts';
import { baseUrl, url } from '../parsers/urls.ts';
import type { Variable } from './variable.ts';

const ADAPTERS_TEST = 'operator/config/adapters.test.ts';
const BILLING_TEST = 'operator/wiring/billing-variables.test.ts';

const planCode = matching(
  /^[A-Za-z0-9._:-]{1,128}$/,
  'letters, digits, `.`, `_`, `:` and `-`',
  'not a plan code',
  'use letters, digits, ., _, : and -, at most 128',
);

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

/** What is common to all destinations, and the outbound webhook (spec appendix). */
export const BILLING_VARIABLES = {
  ADAPTERS: {
    meaning:
      'Destinations: `billing_a` or `stripe`, `billing_b` or `metronome`, `billing_c` or `lago`, `webhook`, `noop`. The default counts only if its key is set. BillingDestinations exist beside them; one of the same name replaces the destination here.',
    parser: list(text(64)),
    otherwise: '`billing_c`',
    fields: ['BillingDestination spec.type'],
    test: ADAPTERS_TEST,
  },
  ADAPTER: {
    meaning: 'A single destination, used only when ADAPTERS is empty.',
    parser: text(64),
    deprecated: 'use ADAPTERS',
    test: ADAPTERS_TEST,
  },
  SPOT_DISCOUNT_PERCENT: {
    meaning: 'Without effect: quantities stay physical, prices depend on `capacity_type`.',
    parser: text(64),
    deprecated: 'it has no effect; price capacity_type in the billing backend and remove it',
    test: ADAPTERS_TEST,
  },
  DEFAULT_PLAN_CODE: {
    meaning: 'Plan of new tenants.',
    parser: planCode,
    default: 'tenant-standard',
    fields: ['BillingDestination spec.lago.planCode', 'BillingDestination spec.stripe.planCode'],
    test: BILLING_TEST,
  },
  BILLING_CURRENCY: {
    meaning: 'Currency of the plan and of tenants that name none.',
    parser: currency(),
    default: 'USD',
    fields: [
      'BillingDestination spec.lago.currency',
      'BillingDestination spec.stripe.currency',
      'BillingDestination spec.metronome.currency',
    ],
    test: BILLING_TEST,
  },
  WEBHOOK_URL: {
    meaning: 'Where CloudEvents batches are posted to. Required by `webhook`.',
    parser: url(),
    shown: 'url',
    fields: ['BillingDestination spec.webhook.url'],
    test: BILLING_TEST,
  },
  WEBHOOK_SECRET: {
    meaning: 'Signs each batch in the header `X-Svc-Signature`; several during rotation.',
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.webhook.secretRefs'],
    test: BILLING_TEST,
  },
  WEBHOOK_HEADERS: {
    meaning: 'Headers added to each batch.',
    parser: headers(),
    shown: 'masked',
    fields: ['BillingDestination spec.webhook.headers'],
    test: BILLING_TEST,
  },
} as const satisfies Record<string, Variable>;

/** Lago, the open-source billing engine. */
export const LAGO_VARIABLES = {
  BILLING_C_API_URL: {
    meaning: 'Base address of the Lago API, without `/api/v1`.',
    aliases: ['LAGO_API_URL'],
    parser: baseUrl(),
    default: 'http://localhost:3000',
    shown: 'url',
    fields: ['BillingDestination spec.lago.url'],
    test: BILLING_TEST,
  },
  BILLING_C_API_KEY: {
    meaning: 'Lago API key. Required by `billing_c`.',
    aliases: ['LAGO_API_KEY'],
    parser: secret(),
    shown: 'masked',
    fields: ['BillingDestination spec.lago.apiKeySecretRef'],
    test: BILLING_TEST,
  },
  BILLING_C_WEBHOOK_SECRET: {
    meaning:
      'Enables and verifies Lago’s alerts at `/webhooks/billing_c`; several during rotation.',
    aliases: ['LAGO_WEBHOOK_SECRET'],
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.lago.webhookSecretRefs'],
    test: 'operator/http/webhooks.test.ts',
  },
} as const satisfies Record<string, Variable>;

/** Stripe, the card-payment billing provider. */
export const STRIPE_VARIABLES = {
  BILLING_A_API_KEY: {
    meaning:
      'Stripe secret or restricted key. Required by `billing_a` and by BILLING_B_STRIPE_LINK.',
    aliases: ['STRIPE_API_KEY'],
    parser: secret(),
    shown: 'masked',
    fields: ['BillingDestination spec.stripe.apiKeySecretRef'],
    test: BILLING_TEST,
  },
  BILLING_A_WEBHOOK_SECRET: {
    meaning:
      'Enables and verifies Stripe’s alerts at `/webhooks/billing_a`; several during rotation.',
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
    meaning: 'Subscribe tenants to active metered prices tagged `metadata[vbilling_plan]=<plan>`.',
    aliases: ['STRIPE_AUTO_SUBSCRIBE'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.stripe.autoSubscribe'],
    test: BILLING_TEST,
  },
  BILLING_A_CANCEL_ON_REMOVE: {
    meaning: 'Cancel the subscription at period end when the tenant is offboarded.',
    aliases: ['STRIPE_CANCEL_ON_REMOVE'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.stripe.cancelOnRemove'],
    test: BILLING_TEST,
  },
  BILLING_A_MAX_RPS: {
    meaning:
      'Meter events a second; 0 picks 20 for test-mode keys and 200 for live keys. Other requests keep to 20.',
    aliases: ['STRIPE_MAX_RPS'],
    parser: integer(0, 10_000),
    default: '0',
    fields: ['BillingDestination spec.stripe.maxRequestsPerSecond'],
    test: BILLING_TEST,
  },
  BILLING_A_API_VERSION: {
    meaning: 'The API version that requests are pinned to.',
    aliases: ['STRIPE_API_VERSION'],
    parser: apiVersion,
    default: '2026-09-30.endive',
    fields: ['BillingDestination spec.stripe.apiVersion'],
    test: BILLING_TEST,
  },
  BILLING_A_API_BASE: {
    meaning: 'Base address of the Stripe API.',
    aliases: ['STRIPE_API_BASE'],
    parser: baseUrl(),
    otherwise:
      '`https://api.billing-a.invalid` for `billing_a`, `https://api.stripe.com` for `stripe`',
    shown: 'url',
    fields: ['BillingDestination spec.stripe.url'],
    test: BILLING_TEST,
  },
} as const satisfies Record<string, Variable>;

/** Metronome, the usage-contract billing provider. */
export const METRONOME_VARIABLES = {
  BILLING_B_API_TOKEN: {
    meaning: 'Metronome bearer token. Required by `billing_b`.',
    aliases: ['METRONOME_API_TOKEN'],
    parser: secret(),
    shown: 'masked',
    fields: ['BillingDestination spec.metronome.apiTokenSecretRef'],
    test: BILLING_TEST,
  },
  BILLING_B_WEBHOOK_SECRET: {
    meaning:
      'Enables and verifies Metronome’s alerts at `/webhooks/billing_b`; several during rotation.',
    aliases: ['METRONOME_WEBHOOK_SECRET'],
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.metronome.webhookSecretRefs'],
    test: 'operator/http/webhooks.test.ts',
  },
  BILLING_B_RATE_CARD: {
    meaning:
      'Id, alias or name of the rate card that each tenant gets a contract on, unless its plan names another one; without it no contract is made.',
    aliases: ['METRONOME_RATE_CARD'],
    parser: text(128),
    fields: ['BillingDestination spec.metronome.rateCard'],
    test: BILLING_TEST,
  },
  BILLING_B_STRIPE_LINK: {
    meaning: 'Create each tenant’s Stripe customer and link it. Needs BILLING_A_API_KEY.',
    aliases: ['METRONOME_STRIPE_LINK'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.metronome.stripeLink'],
    test: BILLING_TEST,
  },
  BILLING_B_STRIPE_COLLECTION_METHOD: {
    meaning: 'How linked Stripe customers are charged.',
    aliases: ['METRONOME_STRIPE_COLLECTION_METHOD'],
    parser: choice('charge_automatically', 'send_invoice'),
    default: 'charge_automatically',
    fields: ['BillingDestination spec.metronome.stripeLink.collectionMethod'],
    test: BILLING_TEST,
  },
  BILLING_B_API_BASE: {
    meaning: 'Base address of the Metronome API.',
    aliases: ['METRONOME_API_BASE'],
    parser: baseUrl(),
    otherwise:
      '`https://api.billing-b.invalid` for `billing_b`, `https://api.metronome.com` for `metronome`',
    shown: 'url',
    fields: ['BillingDestination spec.metronome.url'],
    test: BILLING_TEST,
  },
} as const satisfies Record<string, Variable>;
