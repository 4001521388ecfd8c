import { expect, test } from 'vitest';
import { createHarness, eventsOf, TEST_MAX_BACKFILL_MS, tenantNamed } from '../testing/harness.ts';

test('a tenant is offboarded only after its last event has arrived', async () => {
  const harness = createHarness();
  const order: string[] = [];
  harness.destination.reactToOffboard = ({ id }) => {
    order.push(`${id} after ${harness.destination.taken.length}`);
    return { kind: 'done' };
  };
  harness.destination.react = () => 'unavailable';
  await harness.append(...eventsOf(['a'], 25));
  await harness.start();
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.clock.pass(TEST_MAX_BACKFILL_MS * 2);
  expect(order).toStrictEqual([]);
  expect(harness.delivery.status('fake')?.offboarding).toBe(1);
  harness.destination.react = () => 'accept';
  await harness.clock.until(() => order.length > 0);
  expect(order).toStrictEqual(['a after 25']);
  expect(harness.delivery.status('fake')?.offboarding).toBe(0);
  await harness.stop();
});

test('a tenant with dead letters, parked events or open gaps waits, but not for ever', async () => {
  for (const cause of ['dead', 'gap'] as const) {
    const harness = createHarness();
    if (cause === 'dead') {
      harness.destination.react = (events) =>
        events.map(({ id }) =>
          id === 'a-0' ? { kind: 'rejected', reason: 'no' } : { kind: 'delivered' },
        );
    } else {
      harness.tenants.openGaps.add('a');
    }
    await harness.append(...eventsOf(['a', 'b'], 2));
    await harness.start();
    await harness.drained();
    await harness.delivery.offboard(tenantNamed('a'));
    await harness.clock.pass(TEST_MAX_BACKFILL_MS - 60_000);
    expect(harness.destination.offboarded).toStrictEqual([]);
    await harness.clock.pass(180_000);
    expect(harness.destination.offboarded).toStrictEqual(['a']);
    await harness.stop();
  }
});

test('gaps are looked through once for all tenants that are gone, however many wait', async () => {
  const harness = createHarness();
  const gone = Array.from({ length: 300 }, (_, index) => `gone-${index}`);
  for (const tenant of gone) harness.tenants.openGaps.add(tenant);
  await harness.start();
  for (const tenant of gone) await harness.delivery.offboard(tenantNamed(tenant));
  await harness.clock.pass(60_000);
  const before = harness.tenants.gapReads;
  await harness.clock.pass(60_000);
  expect(harness.tenants.gapReads - before).toBeGreaterThan(0);
  expect(harness.tenants.gapReads - before).toBeLessThan(5);
  expect(harness.delivery.status('fake')?.offboarding).toBe(gone.length);
  harness.tenants.openGaps.clear();
  await harness.clock.pass(120_000);
  expect(harness.delivery.status('fake')?.offboarding).toBe(0);
  await harness.stop();
});

test('a closed dead letter lets the tenant go at once', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(({ id }) =>
      id === 'a-1' ? { kind: 'rejected', reason: 'no' } : { kind: 'delivered' },
    );
  await harness.append(...eventsOf(['a'], 2));
  await harness.start();
  await harness.drained();
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.clock.pass(600_000);
  expect(harness.destination.offboarded).toStrictEqual([]);
  await harness.delivery.discard('fake', undefined);
  await harness.clock.pass(120_000);
  expect(harness.destination.offboarded).toStrictEqual(['a']);
  await harness.stop();
});

test('a request survives a restart', async () => {
  const first = createHarness();
  first.destination.reactToOffboard = () => ({ kind: 'retry', reason: 'status 503' });
  await first.append(...eventsOf(['a']));
  await first.start();
  await first.drained();
  await first.delivery.offboard(tenantNamed('a'));
  await first.clock.pass(60_000);
  await first.stop();

  const second = createHarness({ ledger: first.ledger });
  await second.start();
  await second.clock.until(() => second.destination.offboarded.length === 1);
  await second.stop();
});

test('a tenant that is back by then stays', async () => {
  const harness = createHarness();
  harness.destination.react = () => 'unavailable';
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.delivery.offboard(tenantNamed('a'));
  harness.tenants.set(tenantNamed('a'));
  harness.destination.react = () => 'accept';
  await harness.drained();
  await harness.clock.pass(TEST_MAX_BACKFILL_MS * 2);
  expect(harness.destination.offboarded).toStrictEqual([]);
  expect(harness.delivery.status('fake')?.offboarding).toBe(0);
  await harness.stop();
});

test('a tenant that never had an event there has nothing to end', async () => {
  const harness = createHarness();
  await harness.start();
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.clock.until(() => harness.delivery.status('fake')?.offboarding === 0);
  expect(harness.destination.offboarded).toStrictEqual([]);
  await harness.stop();
});

test('a tenant that comes back after its end is provisioned again', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.clock.until(() => harness.destination.offboarded.length === 1);
  await harness.append(...eventsOf(['a'], 2).slice(1));
  await harness.drained();
  expect(harness.destination.provisioned).toHaveLength(2);
  await harness.stop();
});

test('one tenant that cannot be offboarded does not hold up delivery', async () => {
  const harness = createHarness();
  harness.destination.reactToOffboard = () => ({ kind: 'rejected', reason: 'open invoice' });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  await harness.delivery.offboard(tenantNamed('a'));
  await harness.append(...eventsOf(['b'], 3));
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(4);
  expect(harness.delivery.status('fake')).toMatchObject({ ready: true, offboarding: 1 });
  expect(harness.lines).toContain('warn [fake] tenant a not offboarded: open invoice');
  await harness.stop();
});
