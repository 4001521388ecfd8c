import { expect, test } from 'vitest';
import type { BillingDestinationSpec } from '../settings/custom-resources.generated.ts';
import type { MetronomeSettings } from '../destinations/metronome/settings.ts';
import { Secret } from '../model/secret.ts';
import { secretNames, translateDestination } from './destination-settings.ts';
import { COMPLETE_SPECS } from './testing/objects.ts';

const DEFAULTS = { planCode: 'tenant-standard', currency: 'USD', clusterName: 'control-plane-1' };
const READS = new Map([
  [
    'metronome',
    { kind: 'found', values: new Map([['api-token', new Secret('a-token')]]) } as const,
  ],
  ['stripe', { kind: 'found', values: new Map([['api-key', new Secret('sk_test_1')]]) } as const],
]);

const translate = (spec: BillingDestinationSpec) =>
  translateDestination('main', spec, READS, DEFAULTS);

const COMPLETE = (COMPLETE_SPECS.billingdestinations as BillingDestinationSpec[]).find(
  ({ type }) => type === 'metronome',
);

test('a Metronome destination reaches the engine with every field, credentials included', () => {
  const translation = COMPLETE && translate(COMPLETE);
  expect(translation).toEqual({
    kind: 'settings',
    settings: {
      name: 'main',
      type: 'metronome',
      suspend: false,
      startFrom: 'now',
      webhookSecrets: [new Secret('a-token')],
      options: {
        url: 'https://api.metronome.com',
        apiToken: new Secret('a-token'),
        rateCard: 'standard-usd',
        currency: 'EUR',
        stripeLink: {
          url: 'https://api.stripe.com',
          apiKey: new Secret('sk_test_1'),
          apiVersion: '2026-09-30.endive',
          collectionMethod: 'send_invoice',
        },
      },
    },
  });
  if (translation?.kind !== 'settings' || translation.settings.type !== 'metronome') {
    throw new Error('not translated');
  }
  const { apiToken, stripeLink } = translation.settings.options as MetronomeSettings;
  // Secrets compare equal whatever they hold.
  expect([apiToken.reveal(), stripeLink?.apiKey.reveal()]).toEqual(['a-token', 'sk_test_1']);
  expect(COMPLETE && secretNames(COMPLETE)).toEqual(['metronome', 'stripe']);
});

test('what it does not say comes from the environment and from the vendor’s own addresses', () => {
  const metronome = { apiTokenSecretRef: { name: 'metronome', key: 'api-token' } };
  expect(translate({ type: 'metronome', metronome })).toMatchObject({
    settings: { options: { url: 'https://api.metronome.com', currency: 'USD' } },
  });
  const stripeLink = { apiKeySecretRef: { name: 'stripe', key: 'api-key' } };
  expect(translate({ type: 'metronome', metronome: { ...metronome, stripeLink } })).toMatchObject({
    settings: {
      options: {
        stripeLink: {
          url: 'https://api.stripe.com',
          apiVersion: '2026-09-30.endive',
          collectionMethod: 'charge_automatically',
        },
      },
    },
  });
});

test.each([
  [
    { apiTokenSecretRef: { name: 'gone', key: 'api-token' } },
    'spec.metronome.apiTokenSecretRef: no such Secret: "gone"; create it in the namespace of the operator',
  ],
  [
    {
      apiTokenSecretRef: { name: 'metronome', key: 'api-token' },
      stripeLink: { apiKeySecretRef: { name: 'stripe', key: 'typo' } },
    },
    'spec.metronome.stripeLink.apiKeySecretRef: no such key: "typo"; add the key to Secret "stripe"',
  ],
  [
    { apiTokenSecretRef: { name: 'metronome', key: 'api-token' }, url: 'ftp://metronome' },
    'spec.metronome.url: not an http or https URL: "ftp://metronome"; write an absolute http or https URL, such as https://billing.example.com',
  ],
])('what cannot be used is reported: %j', (metronome, message) => {
  expect(translate({ type: 'metronome', metronome })).toMatchObject({ kind: 'invalid', message });
});
