import { describe, expect, test } from 'vitest';
import { loadEnvironment } from './load-environment.ts';
import type { PriceBook } from '../model/price-book.ts';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings, Settings } from './settings.ts';
import { createSettingsStore } from './settings-store.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

function environment(): Settings {
  const loaded = loadEnvironment({ ADAPTERS: 'noop', ZONE: 'from-environment' }, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join());
  return loaded.settings;
}

function webhook(name: string, secret: string): DestinationSettings {
  return {
    name,
    type: 'webhook',
    suspend: false,
    startFrom: 'now',
    options: {
      url: 'https://x.example.com',
      secrets: [new Secret(secret)],
      headers: new Map([['X-A', new Secret(secret)]]),
      source: 'control-plane',
    },
  };
}

describe('a custom resource is removed and its values stay', () => {
  test('a policy lies over the environment and gives its fields back', () => {
    const store = createSettingsStore(environment());
    store.setPolicy({ metering: { windowMs: 10_000 }, identity: { zone: 'z' } });
    expect(store.current().metering).toMatchObject({ windowMs: 10_000, settlingDelayMs: 3_000 });
    expect(store.current().identity.zone).toBe('z');
    store.setPolicy({ metering: { maxBackfillMs: 0 } });
    expect(store.current().metering).toMatchObject({ windowMs: 60_000, maxBackfillMs: 0 });
    store.setPolicy(undefined);
    expect(store.current()).toStrictEqual(environment());
  });

  test('a destination replaces the environment’s of the same name and gives it back', () => {
    const store = createSettingsStore(environment());
    store.setDestination('noop', webhook('noop', 's'));
    expect(store.current().billing.destinations).toMatchObject([{ name: 'noop', type: 'webhook' }]);
    store.setDestination('noop', undefined);
    expect(store.current()).toStrictEqual(environment());
  });

  test('a destination’s webhook secrets are added to the environment’s, and go with it', () => {
    const loaded = loadEnvironment({ STRIPE_WEBHOOK_SECRET: 'whsec_environment' }, DESTINATIONS);
    if (loaded.kind === 'invalid') throw new Error(loaded.problems.join());
    const store = createSettingsStore(loaded.settings);
    const secrets = () =>
      store.current().enforcement.webhookSecrets['stripe']?.map((secret) => secret.reveal());
    store.setDestination('stripe', {
      name: 'stripe',
      type: 'stripe',
      suspend: false,
      startFrom: 'now',
      webhookSecrets: [new Secret('whsec_resource')],
      options: {
        url: 'https://api.stripe.com',
        apiKey: new Secret('sk_test_1'),
        apiVersion: '2026-09-30.endive',
        splitMetersBy: ['sku'],
        autoSubscribe: false,
        cancelOnRemove: false,
        maxRequestsPerSecond: 0,
        planCode: 'standard',
        currency: 'USD',
      },
    });
    expect(secrets()).toStrictEqual(['whsec_environment', 'whsec_resource']);
    expect(store.current().enforcement.webhookSecrets['lago']).toStrictEqual([]);
    store.setDestination('stripe', undefined);
    expect(secrets()).toStrictEqual(['whsec_environment']);
  });

  test('overrides come and go', () => {
    const store = createSettingsStore(environment());
    const match = { kind: 'cluster', namespace: 'tenant-a', name: 'a' } as const;
    store.setOverride('one', { name: 'one', createdAt: 1, match, tenant: 'acme' });
    expect(store.current().overrides).toMatchObject([{ tenant: 'acme' }]);
    store.setOverride('one', undefined);
    expect(store.current().overrides).toStrictEqual([]);
  });
});

describe('a resync of unchanged resources restarts every destination', () => {
  test('setting the same again calls no listener', () => {
    const store = createSettingsStore(environment());
    let reported = 0;
    store.subscribe(() => reported++);
    store.setDestination('hook', webhook('hook', 's'));
    store.setDestination('hook', webhook('hook', 's'));
    store.setPolicy({});
    store.setPolicy({ metering: { windowMs: 60_000 } });
    store.setOverride('absent', undefined);
    expect(reported).toBe(1);
  });

  test('a rotated credential is a change, though it looks the same', () => {
    const store = createSettingsStore(environment());
    store.setDestination('hook', webhook('hook', 'old'));
    let reported = 0;
    store.subscribe(() => reported++);
    store.setDestination('hook', webhook('hook', 'new'));
    expect(reported).toBe(1);
  });

  test('resources that arrive in another order make the same value', () => {
    const stores = [createSettingsStore(environment()), createSettingsStore(environment())];
    for (const name of ['a', 'b', 'c']) stores[0]?.setDestination(name, webhook(name, 's'));
    for (const name of ['c', 'a', 'b']) stores[1]?.setDestination(name, webhook(name, 's'));
    expect(stores[0]?.current()).toStrictEqual(stores[1]?.current());
  });
});

describe('a listener sees a value that is not the one in force', () => {
  test('each swap is reported with the value before it, in order', () => {
    const store = createSettingsStore(environment());
    const seen: (readonly [number, number])[] = [];
    store.subscribe((next, previous) => {
      seen.push([previous.metering.windowMs, next.metering.windowMs]);
      if (next.metering.windowMs === 10_000) store.setPolicy({ metering: { windowMs: 20_000 } });
    });
    const second: number[] = [];
    store.subscribe((next) => second.push(next.metering.windowMs));
    store.setPolicy({ metering: { windowMs: 10_000 } });
    expect(seen).toStrictEqual([
      [60_000, 10_000],
      [10_000, 20_000],
    ]);
    expect(second).toStrictEqual([10_000, 20_000]);
  });

  test('a listener that left is not called again', () => {
    const store = createSettingsStore(environment());
    let reported = 0;
    const leave = store.subscribe(() => reported++);
    leave();
    store.setPolicy({ metering: { windowMs: 10_000 } });
    expect(reported).toBe(0);
  });
});

test('a price book is removed and its prices stay', () => {
  const store = createSettingsStore(environment());
  const book = (name: string): PriceBook => ({ name, currency: 'EUR', prices: [] });
  store.setPriceBook('silver', book('silver'));
  store.setPriceBook('gold', book('gold'));
  expect(store.current().pricing.books.map(({ name }) => name)).toStrictEqual(['gold', 'silver']);
  const { pricing } = store.current();
  store.setPolicy({ metering: { windowMs: 10_000 } });
  expect(store.current().pricing).toBe(pricing);
  store.setPriceBook('gold', undefined);
  expect(store.current().pricing.books).toStrictEqual([book('silver')]);
});

test('somebody changes the value in force in place', () => {
  const store = createSettingsStore(environment());
  store.setPolicy({ metering: { gpuResources: ['example.com/gpu'] } });
  const { metering } = store.current();
  expect(() => Object.assign(metering, { windowMs: 1 })).toThrow(TypeError);
  expect(Object.isFrozen(metering.gpuResources)).toBe(true);
});
