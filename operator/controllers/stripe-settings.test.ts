import { expect, test } from 'vitest';
import type { BillingDestinationSpec } from '../settings/custom-resources.generated.ts';
import type { StripeSettings } from '../destinations/stripe/settings.ts';
import { Secret } from '../model/secret.ts';
import { secretNames, translateDestination } from './destination-settings.ts';
import { COMPLETE_SPECS } from './testing/objects.ts';

const DEFAULTS = { planCode: 'tenant-standard', currency: 'USD', clusterName: 'control-plane-1' };
const READS = new Map([
  ['stripe', { kind: 'found', values: new Map([['api-key', new Secret('rk_test_1')]]) } as const],
  ['alerts', { kind: 'found', values: new Map([['stripe', new Secret('whsec_1')]]) } as const],
]);
const KEY = { apiKeySecretRef: { name: 'stripe', key: 'api-key' } };

const translate = (spec: BillingDestinationSpec) =>
  translateDestination('main', spec, READS, DEFAULTS);

const COMPLETE = (COMPLETE_SPECS.billingdestinations as BillingDestinationSpec[]).find(
  ({ type }) => type === 'stripe',
);

test('a Stripe destination reaches the engine with every field, the key included', () => {
  const translation = COMPLETE && translate(COMPLETE);
  expect(translation).toEqual({
    kind: 'settings',
    settings: {
      name: 'main',
      type: 'stripe',
      suspend: false,
      startFrom: 'now',
      webhookSecrets: [new Secret('whsec_1')],
      options: {
        url: 'https://api.stripe.com',
        apiKey: new Secret('rk_test_1'),
        apiVersion: '2026-09-30.endive',
        splitMetersBy: ['sku', 'capacity_type'],
        autoSubscribe: true,
        cancelOnRemove: true,
        maxRequestsPerSecond: 50,
        meterEventStream: true,
        planCode: 'gold',
        currency: 'EUR',
        payment: { collectionMethod: 'send_invoice', daysUntilDue: 14, automaticTax: true },
        billingDay: 31,
      },
    },
  });
  if (translation?.kind !== 'settings' || translation.settings.type !== 'stripe') {
    throw new Error('not translated');
  }
  // Secrets compare equal whatever they hold.
  const { apiKey } = translation.settings.options as StripeSettings;
  expect(apiKey.reveal()).toBe('rk_test_1');
  expect(translation.settings.webhookSecrets?.map((one) => one.reveal())).toEqual(['whsec_1']);
  expect(COMPLETE && secretNames(COMPLETE)).toEqual(['alerts', 'stripe']);
});

test('what it does not say is as the environment variables have it', () => {
  expect(translate({ type: 'stripe', stripe: KEY })).toMatchObject({
    settings: {
      options: {
        url: 'https://api.stripe.com',
        apiVersion: '2026-09-30.endive',
        splitMetersBy: ['sku'],
        autoSubscribe: false,
        cancelOnRemove: false,
        maxRequestsPerSecond: 0,
        planCode: 'tenant-standard',
        currency: 'USD',
        billingDay: 1,
      },
    },
  });
});

test.each([
  [
    { apiKeySecretRef: { name: 'gone', key: 'api-key' } },
    'spec.stripe.apiKeySecretRef: no such Secret: "gone"; create it in the namespace of the operator',
  ],
  [
    { ...KEY, webhookSecretRefs: [{ name: 'alerts', key: 'typo' }] },
    'spec.stripe.webhookSecretRefs[0]: no such key: "typo"; add the key to Secret "alerts"',
  ],
  [
    { ...KEY, url: 'ftp://stripe' },
    'spec.stripe.url: not an http or https URL: "ftp://stripe"; write an absolute http or https URL, such as https://billing.example.com',
  ],
])('what cannot be used is reported: %j', (stripe, message) => {
  expect(translate({ type: 'stripe', stripe })).toMatchObject({ kind: 'invalid', message });
});
