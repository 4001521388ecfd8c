import { BASES } from '../config/adapters.ts';
import { currency } from '../config/parsers/scalars.ts';
import { baseUrl, maskUrl } from '../config/parsers/urls.ts';
import type { StripeSettings } from '../config/settings.ts';
import { STRIPE_VARIABLES } from '../config/variables/billing.ts';
import type { DestinationDefaults } from './destination-settings.ts';
import { lookUpCredential, type SecretReads } from './secret-lookup.ts';
import { invalidField, type Translation } from '../config/spec-fields.ts';
import type { BillingDestinationSpec } from '../config/custom-resources.generated.ts';

type StripeSpec = NonNullable<BillingDestinationSpec['stripe']>;

const FIELD = 'spec.stripe';
const SPLIT_BY_DEFAULT = [STRIPE_VARIABLES.BILLING_A_SPLIT_METERS_BY.default];

/** The settings of type stripe. */
export function translateStripe(
  spec: StripeSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<StripeSettings> {
  const url = spec.url ?? BASES.stripe;
  const address = baseUrl().parse(url);
  if (address.kind === 'problem') return invalidField(`${FIELD}.url`, address, maskUrl(url));
  const apiKey = lookUpCredential(`${FIELD}.apiKeySecretRef`, spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  const code = currency().parse(spec.currency ?? defaults.currency);
  if (code.kind === 'problem') {
    return invalidField(`${FIELD}.currency`, code, spec.currency ?? defaults.currency);
  }
  return {
    kind: 'settings',
    settings: {
      url: address.value,
      apiKey: apiKey.secret,
      apiVersion: spec.apiVersion ?? STRIPE_VARIABLES.BILLING_A_API_VERSION.default,
      splitMetersBy: spec.splitMetersBy ?? SPLIT_BY_DEFAULT,
      autoSubscribe: spec.autoSubscribe ?? false,
      cancelOnRemove: spec.cancelOnRemove ?? false,
      maxRequestsPerSecond: spec.maxRequestsPerSecond ?? 0,
      planCode: spec.planCode ?? defaults.planCode,
      currency: code.value,
    },
  };
}
