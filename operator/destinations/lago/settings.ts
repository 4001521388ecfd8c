import type {
  DestinationDefaults,
  FromEnvironment,
  GivenEnvironment,
  VariableSet,
} from '../../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../../settings/custom-resources.generated.ts';
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

export interface LagoSettings {
  readonly url: string;
  readonly apiKey: Secret;
  readonly planCode: string;
  readonly currency: string;
}

export type LagoSpec = NonNullable<BillingDestinationSpec['lago']>;

const BILLING_TEST = 'operator/app/billing-variables.test.ts';

export const LAGO_VARIABLES = {
  BILLING_C_API_URL: {
    meaning: 'Address of the Lago API without `/api/v1`.',
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
    meaning: 'Verifies Lago’s alerts with hmac at `/webhooks/billing_c`. jwt needs none.',
    aliases: ['LAGO_WEBHOOK_SECRET'],
    parser: secrets(),
    shown: 'masked',
    fields: ['BillingDestination spec.lago.webhookSecretRefs'],
    test: 'operator/http/webhooks.test.ts',
  },
} as const satisfies VariableSet;

export function lagoFromEnvironment({
  defaults,
  valuesOf,
}: GivenEnvironment): FromEnvironment<LagoSettings> {
  const { BILLING_C_API_URL: url, BILLING_C_API_KEY: apiKey } = valuesOf(LAGO_VARIABLES);
  if (apiKey === undefined) return { kind: 'missing', variable: 'BILLING_C_API_KEY' };
  const { planCode, currency } = defaults;
  return { kind: 'options', options: { url, apiKey, planCode, currency } };
}

export function lagoFromSpec(
  spec: LagoSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<LagoSettings> {
  const url = baseUrlField('spec.lago.url', spec.url);
  if (url.kind === 'invalid') return url;
  const apiKey = credentialField('spec.lago.apiKeySecretRef', spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  const currency = currencyField('spec.lago.currency', spec.currency ?? defaults.currency);
  if (currency.kind === 'invalid') return currency;
  return {
    kind: 'settings',
    settings: {
      url: url.value,
      apiKey: apiKey.value,
      planCode: spec.planCode ?? defaults.planCode,
      currency: currency.value,
    },
  };
}
