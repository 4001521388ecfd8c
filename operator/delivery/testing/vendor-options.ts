import { Secret } from '../../model/secret.ts';

/** What the tests set of Lago; the stand-in is at `url` and knows the key `key`. */
export function lagoOptions(url: string) {
  const apiKey = new Secret('key');
  return { url, apiKey, planCode: 'tenant-standard', currency: 'USD' };
}

/**
 * What the tests set of Stripe, as far as they do not change it; the stand-in is at `url` and knows
 * the key `sk_test_key`.
 */
export function stripeOptions(url: string, change: Readonly<Record<string, unknown>> = {}) {
  return {
    url,
    apiKey: new Secret('sk_test_key'),
    apiVersion: '2026-09-30.endive',
    splitMetersBy: ['sku'],
    autoSubscribe: true,
    cancelOnRemove: false,
    maxRequestsPerSecond: 0,
    planCode: 'tenant-standard',
    currency: 'USD',
    billingDay: 1,
    ...change,
  };
}
