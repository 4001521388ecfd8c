import type {
  DestinationDefaults,
  FromEnvironment,
  GivenEnvironment,
  VariableSet,
} from '../../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../../settings/custom-resources.generated.ts';
import { boolean, choice, text } from '../../settings/parsers/scalars.ts';
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
import { STRIPE_URL, STRIPE_VARIABLES, stripeAccess } from '../stripe/settings.ts';

export interface MetronomeSettings {
  readonly url: string;
  readonly apiToken: Secret;
  /** Id, alias or name of new contracts' rate card. Without it the operator makes no contract. */
  readonly rateCard?: string;
  /** The currency of tenants that name none. A rate card in another currency is refused. */
  readonly currency: string;
  readonly stripeLink?: StripeLinkSettings;
}

/** The Stripe account with each tenant's customer, to be linked with the customer here. */
export interface StripeLinkSettings {
  readonly url: string;
  readonly apiKey: Secret;
  readonly apiVersion: string;
  readonly collectionMethod: 'charge_automatically' | 'send_invoice';
}

export type MetronomeSpec = NonNullable<BillingDestinationSpec['metronome']>;
type StripeLinkSpec = NonNullable<MetronomeSpec['stripeLink']>;

const BILLING_TEST = 'operator/app/billing-variables.test.ts';
/** The address of the neutral spelling. It reaches no server until a user sets the real URL. */
const NEUTRAL_URL = 'https://api.billing-b.invalid';
const METRONOME_URL = 'https://api.metronome.com';

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
    meaning: 'Verifies Metronome’s alerts at `/webhooks/billing_b`, which it enables.',
    aliases: ['METRONOME_WEBHOOK_SECRET'],
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.metronome.webhookSecretRefs'],
    test: 'operator/http/webhooks.test.ts',
  },
  BILLING_B_RATE_CARD: {
    meaning:
      'Rate card (id, alias or name) of each tenant’s contract unless its plan names one. Without it tenants get no contract.',
    aliases: ['METRONOME_RATE_CARD'],
    parser: text(128),
    fields: ['BillingDestination spec.metronome.rateCard'],
    test: BILLING_TEST,
  },
  BILLING_B_STRIPE_LINK: {
    meaning: 'Create and link a Stripe customer for each tenant. Needs BILLING_A_API_KEY.',
    aliases: ['METRONOME_STRIPE_LINK'],
    parser: boolean(),
    default: 'false',
    fields: ['BillingDestination spec.metronome.stripeLink'],
    test: BILLING_TEST,
  },
  BILLING_B_STRIPE_COLLECTION_METHOD: {
    meaning: 'How Stripe charges linked customers.',
    aliases: ['METRONOME_STRIPE_COLLECTION_METHOD'],
    parser: choice('charge_automatically', 'send_invoice'),
    default: 'charge_automatically',
    fields: ['BillingDestination spec.metronome.stripeLink.collectionMethod'],
    test: BILLING_TEST,
  },
  BILLING_B_API_BASE: {
    meaning: 'Address of the Metronome API.',
    aliases: ['METRONOME_API_BASE'],
    parser: baseUrl(),
    otherwise:
      '`https://api.billing-b.invalid` for `billing_b`, `https://api.metronome.com` for `metronome`',
    shown: 'url',
    fields: ['BillingDestination spec.metronome.url'],
    test: BILLING_TEST,
  },
} as const satisfies VariableSet;

export function metronomeFromEnvironment({
  spelling,
  defaults,
  valuesOf,
}: GivenEnvironment): FromEnvironment<MetronomeSettings> {
  const values = valuesOf(METRONOME_VARIABLES);
  const isNeutral = spelling !== 'metronome';
  const access = values.BILLING_B_STRIPE_LINK ? stripeAccess(valuesOf, isNeutral) : undefined;
  if (values.BILLING_B_STRIPE_LINK && access === undefined) {
    return { kind: 'missing', variable: 'BILLING_A_API_KEY' };
  }
  const { BILLING_B_API_TOKEN: apiToken } = values;
  if (apiToken === undefined) return { kind: 'missing', variable: 'BILLING_B_API_TOKEN' };
  const collectionMethod = values.BILLING_B_STRIPE_COLLECTION_METHOD;
  const options = {
    url: values.BILLING_B_API_BASE ?? (isNeutral ? NEUTRAL_URL : METRONOME_URL),
    apiToken,
    currency: defaults.currency,
    rateCard: values.BILLING_B_RATE_CARD,
    stripeLink: access && { ...access, collectionMethod },
  };
  return { kind: 'options', options };
}

export function metronomeFromSpec(
  spec: MetronomeSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<MetronomeSettings> {
  const url = baseUrlField('spec.metronome.url', spec.url ?? METRONOME_URL);
  if (url.kind === 'invalid') return url;
  const { apiTokenSecretRef } = spec;
  const apiToken = credentialField('spec.metronome.apiTokenSecretRef', apiTokenSecretRef, reads);
  if (apiToken.kind === 'invalid') return apiToken;
  const currency = currencyField('spec.metronome.currency', spec.currency ?? defaults.currency);
  if (currency.kind === 'invalid') return currency;
  const link = spec.stripeLink && stripeLinkFromSpec(spec.stripeLink, reads);
  if (link?.kind === 'invalid') return link;
  return {
    kind: 'settings',
    settings: {
      url: url.value,
      apiToken: apiToken.value,
      currency: currency.value,
      rateCard: spec.rateCard,
      stripeLink: link?.settings,
    },
  };
}

function stripeLinkFromSpec(
  spec: StripeLinkSpec,
  reads: SecretReads,
): Translation<StripeLinkSettings> {
  const field = 'spec.metronome.stripeLink';
  const url = baseUrlField(`${field}.url`, spec.url ?? STRIPE_URL);
  if (url.kind === 'invalid') return url;
  const apiKey = credentialField(`${field}.apiKeySecretRef`, spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  return {
    kind: 'settings',
    settings: {
      url: url.value,
      apiKey: apiKey.value,
      apiVersion: spec.apiVersion ?? STRIPE_VARIABLES.BILLING_A_API_VERSION.default,
      collectionMethod: spec.collectionMethod ?? 'charge_automatically',
    },
  };
}
