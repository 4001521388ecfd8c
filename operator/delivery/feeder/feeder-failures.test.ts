import { expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { StepOutcome } from '../../destinations/destination.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, tenantNamed, testSettings } from '../testing/harness.ts';

const FAILED = { kind: 'failed', cause: 'retryable', message: 'disk full' } as const;

test('a bug in one step ends delivery, or passes unnoticed', async () => {
  const memory = createMemoryLedger();
  let isBroken = false;
  const ledger: Ledger = {
    ...memory,
    read: async (...call) => {
      if (isBroken) throw new Error('a bug');
      return memory.read(...call);
    },
  };
  const harness = createHarness({ ledger });
  await harness.start();
  isBroken = true;
  await harness.append(...eventsOf(['a']));
  await harness.clock.pass(60_000);
  expect(harness.lines).toContain('warn [fake] delivery failed: a bug');
  expect(harness.delivery.status('fake')).toMatchObject({
    delivering: false,
    lastError: 'delivery failed: a bug',
  });
  isBroken = false;
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  await harness.stop();
});

test('events are sent before the cursor could be made', async () => {
  const memory = createMemoryLedger();
  let isFull = true;
  const ledger: Ledger = {
    ...memory,
    commitCursor: async (...call) => (isFull ? FAILED : memory.commitCursor(...call)),
  };
  const harness = createHarness({ ledger });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.clock.pass(60_000);
  expect(harness.destination.calls).toStrictEqual([]);
  expect(harness.destination.bootstraps).toStrictEqual([]);
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'disk full' });
  isFull = false;
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  await harness.stop();
});

test('a ledger that can be read again still looks as if it could not', async () => {
  const memory = createMemoryLedger();
  let isBroken = false;
  const ledger: Ledger = {
    ...memory,
    read: async (...call) => (isBroken ? FAILED : memory.read(...call)),
  };
  const destination = createFakeDestination({ accepts: () => false });
  const harness = createHarness({ ledger, destination });
  await harness.start();
  isBroken = true;
  await harness.append(...eventsOf(['a']));
  await harness.clock.pass(600_000);
  const tries = harness.lines.filter((line) => line.includes('disk full')).length;
  expect(tries).toBeGreaterThan(0);
  expect(harness.delivery.status('fake')).toMatchObject({ lastError: 'disk full' });
  isBroken = false;
  await harness.drained();
  await harness.clock.settle();
  expect(harness.delivery.status('fake')).toMatchObject({ delivering: true, skipped: 1 });
  expect(harness.delivery.status('fake')).not.toMatchObject({ lastError: expect.anything() });
  await harness.stop();
});

test('a tenant that changes is not provisioned again, since it failed once or has no usage', async () => {
  const harness = createHarness();
  harness.tenants.set(tenantNamed('a'));
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  const answers: StepOutcome[] = [{ kind: 'retry', reason: 'status 503' }];
  harness.destination.reactToTenant = () => answers.shift() ?? { kind: 'done' };
  harness.tenants.set(tenantNamed('a', { displayName: 'A' }));
  await harness.clock.settle();
  expect(harness.destination.provisioned.at(-1)).not.toMatchObject({ displayName: 'A' });
  harness.tenants.set(tenantNamed('other'));
  await harness.clock.until(() => harness.destination.provisioned.at(-1)?.displayName === 'A');
  await harness.stop();
});

test('what was settled in a batch counts as tried again', async () => {
  const harness = createHarness();
  let isDown = true;
  harness.destination.react = (events) =>
    events.map(({ tenant }) => {
      if (tenant === 'refused') return { kind: 'rejected', reason: 'no' };
      if (tenant === 'bad' && isDown) return { kind: 'retry', reason: 'status 503' };
      return { kind: 'delivered' };
    });
  await harness.append(...eventsOf(['bad', 'refused', 'a']));
  await harness.start();
  const text = await harness.registry.metrics();
  expect(text).toContain('meterfeed_destination_retried_total{destination="fake"} 1');
  isDown = false;
  await harness.drained();
  expect(harness.destination.taken).toContain('bad-0');
  await harness.stop();
});

test('a destination begins again where another one stands', async () => {
  const [first, second] = ['first', 'second'].map((name) => createFakeDestination({ name }));
  if (first === undefined || second === undefined) throw new Error('no destinations');
  const destinations = new Map([
    ['first', first],
    ['second', second],
  ]);
  const harness = createHarness({ destinations });
  second.react = () => 'unavailable';
  await harness.append(...eventsOf(['a'], 3));
  await harness.start({ name: 'first' });
  await harness.delivery.apply([testSettings({ name: 'first' }), testSettings({ name: 'second' })]);
  await harness.clock.until(() => harness.delivery.status('first')?.cursor === 3);
  // An operator moves the cursor of the second past its first event, in the ledger.
  await harness.ledger.moveCursor('second', 1);
  second.react = () => 'accept';
  await harness.clock.until(() => harness.delivery.status('second')?.cursor === 3);
  expect(second.taken.toSorted()).toStrictEqual(['a-0', 'a-1', 'a-2']);
  await harness.append(...eventsOf(['b']));
  await harness.clock.until(() => harness.delivery.status('second')?.cursor === 4);
  expect(first.taken).toHaveLength(4);
  expect(second.taken).toHaveLength(4);
  await harness.stop();
});
