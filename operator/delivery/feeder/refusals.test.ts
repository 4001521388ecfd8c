import { describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import type { DeliveryResult } from '../delivery-result.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, testSettings } from '../testing/harness.ts';
import { Refusals } from './refusals.ts';

const HOLD_MS = 300_000;
const REFUSED: DeliveryResult = { kind: 'dead', reason: 'no such code', refused: true };

/**
 * Gives one batch of a result for each tenant. Returns why the destination is held, and for how
 * many that is so.
 */
function refuse(refusals: Refusals, tenants: readonly string[], result = REFUSED) {
  const tried = tenants.map((tenant, index) => ({
    sequence: index + 1,
    event: testEvent({ id: tenant, tenant }),
  }));
  const results = new Map(tried.map(({ sequence }) => [sequence, result]));
  const held = refusals.withhold(tried, results);
  return { held, withheld: tenants.length - results.size };
}

const times = (count: number, tenant: string): string[] => Array(count).fill(tenant);
const NONE = { held: undefined, withheld: 0 };

describe('refusals in a row', () => {
  test('become a hold one too early or too late, or by one tenant alone', () => {
    const refusals = new Refusals();
    expect(refuse(refusals, [...times(2_500, 'a'), ...times(499, 'b')])).toStrictEqual(NONE);
    expect(refuse(refusals, ['b', 'b', 'a'])).toStrictEqual({
      held: {
        kind: 'blocked',
        reason:
          'refuses everything: 3000 events of 2 tenants in a row, and accepted none; the last answer: no such code',
      },
      withheld: 2,
    });
  });

  test('of one tenant become a hold before ten thousand, or never', () => {
    const refusals = new Refusals();
    expect(refuse(refusals, times(10_000, 'a'))).toStrictEqual(NONE);
    expect(refuse(refusals, ['a'])).toMatchObject({ withheld: 1 });
    expect(refuse(refusals, ['a']).held?.reason).toContain('10000 events of 1 tenant in a row');
  });

  test.each([
    ['by tenant', [...times(500, 'a'), ...times(499, 'b')]],
    ['in all', times(9_999, 'a')],
  ])('go on after one was accepted: counted %s', (_, almost) => {
    const refusals = new Refusals();
    expect(refuse(refusals, almost)).toStrictEqual(NONE);
    const tried = ['b', 'b'].map((tenant, index) => ({
      sequence: index,
      event: testEvent({ id: tenant, tenant }),
    }));
    const results = new Map<number, DeliveryResult>([
      [0, REFUSED],
      [1, { kind: 'delivered' }],
    ]);
    expect(refusals.withhold(tried, results)).toBeUndefined();
    expect(results.size).toBe(2);
    expect(refuse(refusals, almost)).toStrictEqual(NONE);
    expect(refuse(refusals, ['b', 'b'])).toMatchObject({ withheld: 1 });
  });

  test('count what the destination itself did not refuse', () => {
    const refusals = new Refusals();
    const many = [...times(1_000, 'a'), ...times(1_000, 'b')];
    expect(refuse(refusals, many, { kind: 'dead', reason: 'too old' })).toStrictEqual(NONE);
    expect(refuse(refusals, many, { kind: 'parked', reason: 'no plan' })).toStrictEqual(NONE);
    expect(refusals.withhold([{ sequence: 1, event: testEvent() }], new Map())).toBeUndefined();
    expect(refuse(refusals, many.slice(500, 1_500))).toStrictEqual(NONE);
    expect(refuse(refusals, ['a'])).toMatchObject({ withheld: 1 });
  });
});

test('a destination that refuses all of 10,000 events is held, and fills no volume', async () => {
  const limits = { batchEvents: 300 };
  const refusing = createFakeDestination({ name: 'refusing', limits });
  const other = createFakeDestination({ name: 'other', limits });
  refusing.react = () => 'refuse';
  const destinations = new Map([
    ['refusing', refusing],
    ['other', other],
  ]);
  const harness = createHarness({ destinations });
  const events = eventsOf(['a', 'b', 'c', 'd'], 2_500);
  await harness.append(...events);
  await harness.start({ name: 'refusing' });
  await harness.delivery.apply([
    testSettings({ name: 'refusing' }),
    testSettings({ name: 'other' }),
  ]);
  const status = () => harness.delivery.status('refusing');
  await harness.clock.until(() => status()?.blocked !== undefined);
  expect(status()).toMatchObject({ ready: false, deadLetters: 1_000, cursor: 1_000, parked: 0 });
  expect(status()?.blocked).toBe(
    'refuses everything: 1000 events of 4 tenants in a row, and accepted none; the last answer: status 400',
  );
  await harness.clock.until(() => other.taken.length === events.length);

  // It is tried with one event in the interval of a hold, however long that takes.
  const before = refusing.calls.length;
  await harness.clock.pass(10 * HOLD_MS);
  expect(refusing.calls.slice(before).map((ids) => ids.length)).toStrictEqual(Array(10).fill(1));
  expect(status()).toMatchObject({ deadLetters: 1_000, cursor: 1_000 });

  // Once it takes one event, all others follow in order, and what it refused before can be
  // replayed.
  refusing.react = () => 'accept';
  await harness.clock.until(() => status()?.cursor === events.length);
  expect(status()).toMatchObject({ ready: true, deadLetters: 1_000, lagEvents: 0 });
  expect(status()).not.toMatchObject({ blocked: expect.anything() });
  const replay = harness.delivery.replay('refusing', undefined);
  await harness.clock.until(() => status()?.deadLetters === 0);
  expect(await replay).toMatchObject({ kind: 'replayed', replayed: 1_000, stillRejected: 0 });
  expect(new Set(refusing.taken)).toStrictEqual(new Set(events.map(({ id }) => id)));
  for (const tenant of ['a', 'b', 'c', 'd']) {
    const ids = refusing.taken.filter((id) => id.startsWith(`${tenant}-`)).slice(0, 2_250);
    expect(ids).toStrictEqual(ids.toSorted((x, y) => windowOf(x) - windowOf(y)));
  }
  await harness.stop();
});

test('the settings of a held destination are changed: it is tried at once', async () => {
  const harness = createHarness();
  harness.destination.react = () => 'refuse';
  await harness.append(...eventsOf(['a', 'b'], 1_000));
  await harness.start();
  const status = () => harness.delivery.status('fake');
  await harness.clock.until(() => status()?.blocked !== undefined);
  const before = harness.clock.monotonic();
  harness.destination.react = () => 'accept';
  await harness.start({ metrics: { exclude: ['tenant_lb_hours'] } });
  await harness.clock.until(() => status()?.cursor === 2_000);
  expect(harness.clock.monotonic()).toBe(before);
  expect(status()).toMatchObject({ ready: true, deadLetters: 1_000 });
  await harness.stop();
});

test('one poisoned tenant, however much it has, gets dead letters and holds up nobody', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.some(({ tenant }) => tenant === 'bad') ? 'refuse' : 'accept';
  await harness.append(...eventsOf(['bad'], 3_000), ...eventsOf(['a', 'b'], 10));
  await harness.start();
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({
    ready: true,
    deadLetters: 3_000,
    delivered: 20,
  });
  await harness.stop();
});

test('many poisoned tenants get dead letters as long as another is served in between', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.some(({ tenant }) => tenant !== 'a') ? 'refuse' : 'accept';
  await harness.append(...eventsOf(['x', 'y', 'z', 'a'], 1_000));
  await harness.start();
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({
    ready: true,
    deadLetters: 3_000,
    delivered: 1_000,
  });
  await harness.stop();
});

test('where there is one tenant only, everything is ten thousand events', async () => {
  const harness = createHarness({
    destination: createFakeDestination({ limits: { batchEvents: 500 } }),
  });
  harness.destination.react = (events) =>
    events.map(() => ({ kind: 'rejected', reason: 'no such code' }));
  await harness.append(...eventsOf(['a'], 10_600));
  await harness.start();
  const status = () => harness.delivery.status('fake');
  await harness.clock.until(() => status()?.blocked !== undefined);
  expect(status()).toMatchObject({ deadLetters: 10_000, cursor: 10_000 });
  expect(status()?.blocked).toContain('10000 events of 1 tenant in a row');
  await harness.stop();
});

function windowOf(id: string): number {
  return Number(id.slice(id.indexOf('-') + 1));
}
