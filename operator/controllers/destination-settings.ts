import { currency } from '../config/parsers/scalars.ts';
import { baseUrl, maskUrl, url } from '../config/parsers/urls.ts';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings, LagoSettings, WebhookSettings } from '../config/settings.ts';
import { translateMetronome } from './metronome-settings.ts';
import {
  lookUpCredential,
  lookUpHeaderValue,
  type SecretKeyRef,
  type SecretReads,
} from './secret-lookup.ts';
import { translateStripe } from './stripe-settings.ts';
import {
  type InvalidSpec,
  invalidField,
  invalidSpec,
  type Translation,
} from '../config/spec-fields.ts';
import type { BillingDestinationSpec } from '../config/custom-resources.generated.ts';

/** What a destination takes from the operator's environment where its spec says nothing. */
export interface DestinationDefaults {
  readonly planCode: string;
  readonly currency: string;
  /** CLUSTER_NAME, the source of CloudEvents. */
  readonly clusterName: string;
}

type WebhookSpec = NonNullable<BillingDestinationSpec['webhook']>;
type LagoSpec = NonNullable<BillingDestinationSpec['lago']>;
type HeaderSpec = NonNullable<WebhookSpec['headers']>[number];

/** The names of the Secrets that a spec refers to, each once. */
export function secretNames(spec: BillingDestinationSpec): readonly string[] {
  const refs: (SecretKeyRef | undefined)[] = [
    ...(spec.webhook?.secretRefs ?? []),
    ...(spec.webhook?.headers ?? []).map((header) => header.valueSecretRef),
    spec.lago?.apiKeySecretRef,
    spec.stripe?.apiKeySecretRef,
    spec.metronome?.apiTokenSecretRef,
    spec.metronome?.stripeLink?.apiKeySecretRef,
    ...(alertingBlock(spec)?.webhookSecretRefs ?? []),
  ];
  return [...new Set(refs.flatMap((ref) => (ref === undefined ? [] : [ref.name])))].toSorted();
}

/** The settings that a BillingDestination asks for (design 4). */
export function translateDestination(
  name: string,
  spec: BillingDestinationSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<DestinationSettings> {
  const alerts = webhookSecrets(spec, reads);
  if (alerts.kind === 'invalid') return alerts;
  const common = {
    name,
    suspend: spec.suspend ?? false,
    startFrom: spec.startFrom ?? 'now',
    ...(spec.metrics === undefined ? {} : { metrics: spec.metrics }),
    ...(alerts.settings.length > 0 && { webhookSecrets: alerts.settings }),
  };
  switch (spec.type) {
    case 'noop':
      return { kind: 'settings', settings: { ...common, type: 'noop' } };
    case 'webhook': {
      if (spec.webhook === undefined) return blockMissing('webhook');
      const webhook = translateWebhook(spec.webhook, reads, defaults);
      if (webhook.kind === 'invalid') return webhook;
      return {
        kind: 'settings',
        settings: { ...common, type: 'webhook', webhook: webhook.settings },
      };
    }
    case 'lago': {
      if (spec.lago === undefined) return blockMissing('lago');
      const lago = translateLago(spec.lago, reads, defaults);
      if (lago.kind === 'invalid') return lago;
      return { kind: 'settings', settings: { ...common, type: 'lago', lago: lago.settings } };
    }
    case 'stripe': {
      if (spec.stripe === undefined) return blockMissing('stripe');
      const stripe = translateStripe(spec.stripe, reads, defaults);
      if (stripe.kind === 'invalid') return stripe;
      return { kind: 'settings', settings: { ...common, type: 'stripe', stripe: stripe.settings } };
    }
    case 'metronome': {
      if (spec.metronome === undefined) return blockMissing('metronome');
      const metronome = translateMetronome(spec.metronome, reads, defaults);
      if (metronome.kind === 'invalid') return metronome;
      return {
        kind: 'settings',
        settings: { ...common, type: 'metronome', metronome: metronome.settings },
      };
    }
    default:
      return unknownType(spec.type);
  }
}

/** The block of a billing system that sends alerts. */
function alertingBlock({ lago, stripe, metronome }: BillingDestinationSpec) {
  return lago ?? stripe ?? metronome;
}

/** The secrets that verify the alerts of a billing system. */
function webhookSecrets(
  spec: BillingDestinationSpec,
  reads: SecretReads,
): Translation<readonly Secret[]> {
  const secrets: Secret[] = [];
  for (const [index, ref] of (alertingBlock(spec)?.webhookSecretRefs ?? []).entries()) {
    const field = `spec.${spec.type}.webhookSecretRefs[${index}]`;
    const found = lookUpCredential(field, ref, reads);
    if (found.kind === 'invalid') return found;
    secrets.push(found.secret);
  }
  return { kind: 'settings', settings: secrets };
}

function translateWebhook(
  spec: WebhookSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<WebhookSettings> {
  const address = url().parse(spec.url);
  if (address.kind === 'problem') {
    return invalidField('spec.webhook.url', address, maskUrl(spec.url));
  }
  const secrets: Secret[] = [];
  for (const [index, ref] of (spec.secretRefs ?? []).entries()) {
    const found = lookUpCredential(`spec.webhook.secretRefs[${index}]`, ref, reads);
    if (found.kind === 'invalid') return found;
    secrets.push(found.secret);
  }
  const headers = new Map<string, Secret>();
  for (const [index, header] of (spec.headers ?? []).entries()) {
    const found = headerValue(`spec.webhook.headers[${index}]`, header, reads);
    if (found.kind === 'invalid') return found;
    headers.set(header.name, found.secret);
  }
  return {
    kind: 'settings',
    settings: { url: address.value, secrets, headers, source: defaults.clusterName },
  };
}

function headerValue(
  field: string,
  header: HeaderSpec,
  reads: SecretReads,
): { readonly kind: 'secret'; readonly secret: Secret } | InvalidSpec {
  if (header.valueSecretRef !== undefined) {
    return lookUpHeaderValue(`${field}.valueSecretRef`, header.valueSecretRef, reads);
  }
  return { kind: 'secret', secret: new Secret(header.value ?? '') };
}

function translateLago(
  spec: LagoSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<LagoSettings> {
  const address = baseUrl().parse(spec.url);
  if (address.kind === 'problem') return invalidField('spec.lago.url', address, maskUrl(spec.url));
  const apiKey = lookUpCredential('spec.lago.apiKeySecretRef', spec.apiKeySecretRef, reads);
  if (apiKey.kind === 'invalid') return apiKey;
  const code = currency().parse(spec.currency ?? defaults.currency);
  if (code.kind === 'problem') {
    return invalidField('spec.lago.currency', code, spec.currency ?? defaults.currency);
  }
  const planCode = spec.planCode ?? defaults.planCode;
  return {
    kind: 'settings',
    settings: { url: address.value, apiKey: apiKey.secret, planCode, currency: code.value },
  };
}

function blockMissing(type: string): InvalidSpec {
  return invalidSpec('InvalidSpec', `spec.${type}: missing; it is required by type ${type}`);
}

/** Only with CustomResourceDefinitions of another release than the operator's. */
function unknownType(type: never): InvalidSpec {
  const mend = 'apply the CustomResourceDefinitions of the release that the operator runs';
  return invalidSpec(
    'InvalidSpec',
    `spec.type: unknown to this operator: "${String(type)}"; ${mend}`,
  );
}
