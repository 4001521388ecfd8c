import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { createDestinationRegistry, DESTINATIONS, sameDestination } from './registry.ts';
import { createTestContext } from './testing/context.ts';

const common = { name: 'mine', suspend: false, startFrom: 'now' } as const;

function webhook(url: string, secret = 'one'): DestinationSettings {
  const secrets = [new Secret(secret)];
  const settings = { url, secrets, headers: new Map(), source: 'control-plane' };
  return { ...common, type: 'webhook', options: settings };
}

test('settings that cannot be used are named, not thrown', () => {
  const create = createDestinationRegistry(createTestContext());
  expect(create(webhook('ftp://canary@host'))).toStrictEqual({
    kind: 'invalid',
    reason: 'destination "mine": not an http or https URL: base URL',
  });
});

test('noop accepts and discards', async () => {
  const context = createTestContext();
  const outcome = createDestinationRegistry(context)({ ...common, type: 'noop', options: {} });
  if (outcome.kind !== 'created') throw new Error(outcome.reason);
  const { signal } = new AbortController();
  expect(await outcome.destination.send([testEvent(), testEvent()], signal)).toStrictEqual([
    { kind: 'delivered' },
    { kind: 'delivered' },
  ]);
  expect(context.logger.lines[0]).toBe(
    'debug [mine] event tenant=tenant-vcluster-a-a metric=tenant_instance_hours quantity=0.016666667',
  );
});

test('a rotated secret is a change, though it looks the same in every log', () => {
  const url = 'http://127.0.0.1:1';
  expect(sameDestination(webhook(url), webhook(url))).toBe(true);
  expect(sameDestination(webhook(url), webhook(url, 'two'))).toBe(false);
});

test('the variables of a destination are proven to reach its options', () => {
  const unproven = DESTINATIONS.filter(({ variables }) => Object.keys(variables).length > 0)
    .map(({ type }) => new URL(`${type}/settings.test.ts`, import.meta.url))
    .filter((file) => !existsSync(file) || !readFileSync(file, 'utf8').includes('testEffects('));
  expect(unproven).toStrictEqual([]);
});

test.each([
  [
    'live',
    undefined,
    'a live key (sk_live_…) with mode: "test"; set mode: live (DESTINATIONS_MODE=live for ADAPTERS)',
  ],
  [
    'live',
    'test',
    'a live key (sk_live_…) with mode: "test"; set mode: live (DESTINATIONS_MODE=live for ADAPTERS)',
  ],
  ['test', 'live', 'a test key (sk_test_…) with mode: "live"; give a live key'],
] as const)('a %s key with mode %s bills nobody, and both are named', (kind, mode, reason) => {
  const outcome = createDestinationRegistry(createTestContext())(keyed(kind, mode));
  expect(outcome).toStrictEqual({
    kind: 'invalid',
    reason: expect.stringContaining(`destination "mine": ${reason}`) as string,
  });
});

test.each([
  ['live', 'live'],
  ['test', 'test'],
  ['test', undefined],
  ['other', 'live'],
] as const)('a %s key is used with mode %s', (kind, mode) => {
  const outcome = createDestinationRegistry(createTestContext())(keyed(kind, mode));
  expect(outcome.kind).toBe('created');
});

/** Returns a destination whose keys show their mode. */
function keyed(kind: string, mode: 'test' | 'live' | undefined): DestinationSettings {
  const type = DESTINATIONS.find((each) => 'keyMode' in each)?.type ?? '';
  const options = {
    url: 'http://127.0.0.1:1',
    apiKey: new Secret(`sk_${kind}_1`),
    apiVersion: '2026-09-30.endive',
    splitMetersBy: [],
    autoSubscribe: false,
    cancelOnRemove: false,
    maxRequestsPerSecond: 0,
    planCode: 'p',
    currency: 'USD',
  };
  return { ...common, type, ...(mode !== undefined && { mode }), options };
}
