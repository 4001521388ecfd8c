import type {
  DestinationDefaults,
  FromEnvironment,
  GivenEnvironment,
  VariableSet,
} from '../../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../../settings/custom-resources.generated.ts';
import { headers, secrets } from '../../settings/parsers/credentials.ts';
import { maskUrl, url } from '../../settings/parsers/urls.ts';
import {
  credentialsField,
  headersField,
  invalidField,
  type SecretReads,
  type Translation,
} from '../../settings/spec-fields.ts';
import type { Secret } from '../../model/secret.ts';

export interface WebhookSettings {
  readonly url: string;
  /** Several during rotation; every one signs. Empty means unsigned. */
  readonly secrets: readonly Secret[];
  readonly headers: ReadonlyMap<string, Secret>;
  /** The CloudEvents source, CLUSTER_NAME. */
  readonly source: string;
}

export type WebhookSpec = NonNullable<BillingDestinationSpec['webhook']>;

const BILLING_TEST = 'operator/app/billing-variables.test.ts';

export const WEBHOOK_VARIABLES = {
  WEBHOOK_URL: {
    meaning: 'Receives CloudEvents batches. Required by `webhook`.',
    parser: url(),
    shown: 'url',
    fields: ['BillingDestination spec.webhook.url'],
    test: BILLING_TEST,
  },
  WEBHOOK_SECRET: {
    meaning: 'Signs each batch in `X-Svc-Signature` and the headers of Standard Webhooks.',
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
} as const satisfies VariableSet;

export function webhookFromEnvironment({
  defaults,
  valuesOf,
}: GivenEnvironment): FromEnvironment<WebhookSettings> {
  const values = valuesOf(WEBHOOK_VARIABLES);
  if (values.WEBHOOK_URL === undefined) return { kind: 'missing', variable: 'WEBHOOK_URL' };
  const options = {
    url: values.WEBHOOK_URL,
    secrets: values.WEBHOOK_SECRET ?? [],
    headers: values.WEBHOOK_HEADERS ?? new Map<string, Secret>(),
    source: defaults.clusterName,
  };
  return { kind: 'options', options };
}

export function webhookFromSpec(
  spec: WebhookSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<WebhookSettings> {
  const address = url().parse(spec.url);
  if (address.kind === 'problem') {
    return invalidField('spec.webhook.url', address, maskUrl(spec.url));
  }
  const signing = credentialsField('spec.webhook.secretRefs', spec.secretRefs, reads);
  if (signing.kind === 'invalid') return signing;
  const added = headersField('spec.webhook.headers', spec.headers, reads);
  if (added.kind === 'invalid') return added;
  return {
    kind: 'settings',
    settings: {
      url: address.value,
      secrets: signing.value,
      headers: added.value,
      source: defaults.clusterName,
    },
  };
}
