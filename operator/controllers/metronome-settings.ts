import { BASES } from '../config/adapters.ts';
import { currency } from '../config/parsers/scalars.ts';
import { baseUrl, maskUrl } from '../config/parsers/urls.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { MetronomeSettings } from '../config/settings.ts';
import { STRIPE_VARIABLES } from '../config/variables/billing.ts';
import type { DestinationDefaults } from './destination-settings.ts';
import { lookUpCredential, type SecretReads } from './secret-lookup.ts';
import { type InvalidSpec, invalidField, type Translation } from '../config/spec-fields.ts';
import type { BillingDestinationSpec } from '../config/custom-resources.generated.ts';

type MetronomeSpec = NonNullable<BillingDestinationSpec['metronome']>;
type StripeLinkSpec = NonNullable<MetronomeSpec['stripeLink']>;
type StripeLink = NonNullable<MetronomeSettings['stripeLink']>;

const FIELD = 'spec.metronome';

/** The settings of type metronome. */
export function translateMetronome(
  spec: MetronomeSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<MetronomeSettings> {
  const address = readUrl(`${FIELD}.url`, spec.url ?? BASES.metronome);
  if (address.kind === 'invalid') return address;
  const apiToken = lookUpCredential(`${FIELD}.apiTokenSecretRef`, spec.apiTokenSecretRef, reads);
  if (apiToken.kind === 'invalid') return apiToken;
  const code = currency().parse(spec.currency ?? defaults.currency);
  if (code.kind === 'problem') {
    return invalidField(`${FIELD}.currency`, code, spec.currency ?? defaults.currency);
  }
  const link = spec.stripeLink && translateLink(spec.stripeLink, reads);
  if (link?.kind === 'invalid') return link;
  return {
    kind: 'settings',
    settings: {
      url: address.url,
      apiToken: apiToken.secret,
      currency: code.value,
      ...omitUndefined({ rateCard: spec.rateCard, stripeLink: link?.settings }),
    },
  };
}

function translateLink(spec: StripeLinkSpec, reads: SecretReads): Translation<StripeLink> {
  const field = `${FIELD}.stripeLink`;
  const address = readUrl(`${field}.url`, spec.url ?? BASES.stripe);
  if (address.kind === 'invalid') return address;
  const apiKey = lookUpCredential(`${field}.apiKeySecretRef`, spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  return {
    kind: 'settings',
    settings: {
      url: address.url,
      apiKey: apiKey.secret,
      apiVersion: spec.apiVersion ?? STRIPE_VARIABLES.BILLING_A_API_VERSION.default,
      collectionMethod: spec.collectionMethod ?? 'charge_automatically',
    },
  };
}

function readUrl(
  field: string,
  text: string,
): { readonly kind: 'url'; readonly url: string } | InvalidSpec {
  const parsed = baseUrl().parse(text);
  if (parsed.kind === 'problem') return invalidField(field, parsed, maskUrl(text));
  return { kind: 'url', url: parsed.value };
}
