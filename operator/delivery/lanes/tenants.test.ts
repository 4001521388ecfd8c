import { expect, test } from 'vitest';
import { TEST_WINDOW_START } from '../../ledger/testing/events.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, TEST_MAX_BACKFILL_MS, tenantNamed } from '../testing/harness.ts';

test('a tenant is provisioned before its first event, once, and again when it changes', async () => {
  const harness = createHarness();
  harness.tenants.set(tenantNamed('a', { plan: 'basic' }));
  await harness.append(...eventsOf(['a'], 25));
  await harness.start();
  await harness.drained();
  expect(harness.destination.provisioned).toHaveLength(1);
  expect(harness.destination.provisioned[0]).toMatchObject({ id: 'a', plan: 'basic' });
  harness.tenants.set(tenantNamed('a', { plan: 'gold' }));
  await harness.clock.settle();
  expect(harness.destination.provisioned[1]).toMatchObject({ id: 'a', plan: 'gold' });
  await harness.stop();
});

test('a tenant that nobody discovered is provisioned from its event, and keeps its name later', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['pushed']));
  await harness.start();
  await harness.drained();
  expect(harness.destination.provisioned).toMatchObject([
    { id: 'pushed', displayName: 'pushed', region: 'eu-central-1' },
  ]);
  harness.tenants.set(tenantNamed('pushed', { displayName: 'Known' }));
  await harness.append({ ...(eventsOf(['pushed'], 2)[1] ?? fail()), id: 'second' });
  await harness.drained();
  harness.tenants.remove('pushed');
  await harness.stop();

  const later = createHarness({ ledger: harness.ledger });
  await later.append({ ...(eventsOf(['pushed'], 3)[2] ?? fail()), id: 'third' });
  await later.start();
  await later.drained();
  expect(later.destination.provisioned).toMatchObject([{ id: 'pushed', displayName: 'Known' }]);
  await later.stop();
});

test('a subscription can begin early enough for everything that may be billed', async () => {
  const harness = createHarness();
  harness.tenants.set(tenantNamed('old', { createdAt: 0 }));
  harness.tenants.set(tenantNamed('new', { createdAt: TEST_WINDOW_START + 30_000 }));
  await harness.append(...eventsOf(['old', 'new']));
  await harness.start();
  await harness.drained();
  const from = new Map(
    harness.destination.provisioned.map(({ id, billableFrom }) => [id, billableFrom]),
  );
  expect(from.get('old')).toBe(TEST_WINDOW_START - TEST_MAX_BACKFILL_MS);
  expect(from.get('new')).toBe(TEST_WINDOW_START);
  await harness.stop();
});

test('usage that is pushed in late for a tenant that nobody discovered can still be billed', async () => {
  const harness = createHarness();
  const [first, ...older] = eventsOf(['pushed'], 3).toReversed();
  await harness.append(first ?? fail(), ...older);
  await harness.start();
  await harness.drained();
  const earliest = TEST_WINDOW_START - TEST_MAX_BACKFILL_MS;
  expect(harness.destination.provisioned).toMatchObject([{ billableFrom: earliest }]);
  await harness.stop();
});

test('a tenant that cannot be provisioned keeps its events in order and blocks nobody', async () => {
  const harness = createHarness();
  harness.destination.reactToTenant = ({ id }) =>
    id === 'bad' ? { kind: 'rejected', reason: 'plan not found: plan: "gold"' } : { kind: 'done' };
  await harness.append(...eventsOf(['bad', 'a', 'b'], 12));
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(24);
  expect(harness.delivery.status('fake')).toMatchObject({
    ready: true,
    deadLetters: 0,
    parked: 12,
    parkedTenants: [{ tenant: 'bad', events: 12, reason: 'plan not found: plan: "gold"' }],
  });
  harness.destination.reactToTenant = () => ({ kind: 'done' });
  await harness.append(...eventsOf(['bad'], 13).slice(12));
  await harness.drained();
  await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
  expect(harness.destination.taken.slice(24)).toStrictEqual(
    eventsOf(['bad'], 13).map(({ id }) => id),
  );
  await harness.append(...eventsOf(['bad'], 14).slice(13));
  await harness.drained();
  expect(harness.destination.taken.at(-1)).toBe('bad-13');
  await harness.stop();
});

test('mending the tenant is noticed at once, not at the end of a backoff', async () => {
  const harness = createHarness();
  harness.tenants.set(tenantNamed('a', { customerIds: { stripe: 'bogus' } }));
  harness.destination.reactToTenant = ({ customerIds }) =>
    customerIds?.['stripe'] === 'bogus'
      ? { kind: 'rejected', reason: 'no such customer' }
      : { kind: 'done' };
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.clock.pass(3_600_000);
  expect(harness.delivery.status('fake')?.parked).toBe(1);
  const before = harness.clock.monotonic();
  harness.tenants.set(tenantNamed('a'));
  await harness.clock.settle();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  expect(harness.clock.monotonic()).toBe(before);
  await harness.stop();
});

test('a customer id that two tenants name: the usage of both waits, and nobody else’s', async () => {
  const harness = createHarness();
  const sharedCustomerIds = { webhook: 'cus_alice' };
  harness.tenants.set(tenantNamed('alice', { sharedCustomerIds }));
  harness.tenants.set(tenantNamed('thief', { sharedCustomerIds }));
  await harness.append(...eventsOf(['alice', 'thief', 'b']));
  await harness.start();
  await harness.clock.settle();
  expect(harness.destination.taken).toStrictEqual(['b-0']);
  const reason = 'customer id of several tenants: "cus_alice"; name it for one tenant only';
  expect(harness.delivery.status('fake')?.parkedTenants).toMatchObject([
    { tenant: 'alice', events: 1, reason },
    { tenant: 'thief', events: 1, reason },
  ]);
  harness.tenants.set(tenantNamed('alice', { customerIds: { webhook: 'cus_alice' } }));
  await harness.clock.settle();
  expect(harness.destination.taken).toStrictEqual(['b-0', 'alice-0']);
  await harness.stop();
});

test('a tenant whose provisioning fails in passing is served without being set aside', async () => {
  const harness = createHarness();
  let failures = 2;
  harness.destination.reactToTenant = () =>
    failures-- > 0 ? { kind: 'retry', reason: 'status 500' } : { kind: 'done' };
  await harness.append(...eventsOf(['a', 'b']));
  await harness.start();
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, delivered: 2 });
  await harness.stop();
});

test('a tenant whose provisioning fails for ever is set aside once others are served', async () => {
  const harness = createHarness();
  harness.destination.reactToTenant = ({ id }) =>
    id === 'bad' ? { kind: 'retry', reason: 'status 500' } : { kind: 'done' };
  await harness.append(...eventsOf(['bad', 'a'], 20));
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(20);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 20 });
  await harness.stop();
});

test('an outage of provisioning alone sets a thousand tenants aside only if the rest works', async () => {
  const harness = createHarness();
  const tenants = Array.from({ length: 100 }, (_, index) => `t${index}`);
  let attempts = 0;
  harness.destination.reactToTenant = () => {
    attempts += 1;
    return { kind: 'retry', reason: 'connection refused' };
  };
  await harness.append(...eventsOf(tenants));
  await harness.start();
  harness.destination.reactToBootstrap = () => ({ kind: 'retry', reason: 'connection refused' });
  await harness.clock.pass(3_600_000);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, cursor: 0 });
  expect(attempts).toBeLessThan(1000);
  harness.destination.reactToTenant = () => ({ kind: 'done' });
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(100);
  await harness.stop();
});

test('a tenant that the destination forgot is provisioned again, then set aside', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(({ tenant }) =>
      tenant === 'gone' ? { kind: 'provision', reason: 'no such customer' } : { kind: 'delivered' },
    );
  await harness.append(...eventsOf(['gone', 'a']));
  await harness.start();
  await harness.drained();
  expect(harness.destination.provisioned.filter(({ id }) => id === 'gone')).toHaveLength(3);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 1, delivered: 1 });
  harness.destination.react = () => 'accept';
  await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
  expect(harness.destination.taken).toStrictEqual(['a-0', 'gone-0']);
  await harness.stop();
});

test('parked events survive a restart, and still go before newer ones', async () => {
  const first = createHarness();
  first.destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
  await first.append(...eventsOf(['a'], 3));
  await first.start();
  await first.drained();
  await first.stop();

  const second = createHarness({ ledger: first.ledger });
  await second.append(...eventsOf(['a'], 5).slice(3));
  await second.start();
  await second.clock.until(() => second.destination.taken.length === 5);
  expect(second.destination.taken).toStrictEqual(eventsOf(['a'], 5).map(({ id }) => id));
  expect(second.delivery.status('fake')).toMatchObject({ parked: 0 });
  await second.stop();
});

test('a tenant with a long backlog does not keep other parked tenants waiting', async () => {
  const destination = createFakeDestination({ limits: { batchEvents: 2 } });
  const harness = createHarness({ destination });
  destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
  await harness.append(...eventsOf(['long'], 20), ...eventsOf(['short']));
  await harness.start();
  await harness.drained();
  destination.reactToTenant = () => ({ kind: 'done' });
  harness.tenants.set(tenantNamed('long'));
  harness.tenants.set(tenantNamed('short'));
  await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
  expect(destination.taken.indexOf('short-0')).toBeLessThan(10);
  await harness.stop();
});

function fail(): never {
  throw new Error('no such event');
}
