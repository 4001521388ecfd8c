import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { createFakeDestination } from './testing/fake-destination.ts';
import { createHarness, eventsOf, tenantNamed, testSettings } from './testing/harness.ts';

test('a block at one destination does not delay another', async () => {
  const good = createFakeDestination({ name: 'good' });
  const bad = createFakeDestination({ name: 'bad' });
  const hanging = createFakeDestination({ name: 'hanging', pause: () => new Promise(() => {}) });
  const harness = createHarness({
    destinations: new Map([
      ['good', good],
      ['bad', bad],
      ['hanging', hanging],
    ]),
  });
  bad.react = () => 'unavailable';
  await harness.append(...eventsOf(['a', 'b'], 50));
  const stop = new AbortController();
  void harness.delivery.run(stop.signal);
  await harness.delivery.apply([
    testSettings({ name: 'hanging' }),
    testSettings({ name: 'bad' }),
    testSettings({ name: 'good' }),
  ]);
  const before = harness.clock.monotonic();
  await harness.clock.settle();
  expect(good.taken).toHaveLength(100);
  expect(harness.clock.monotonic()).toBe(before);
  expect(harness.delivery.statuses().map(({ name, cursor }) => [name, cursor])).toStrictEqual([
    ['hanging', 0],
    ['bad', 0],
    ['good', 100],
  ]);
});

test('nothing is sent before the engine runs', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['a']));
  await harness.delivery.apply([testSettings()]);
  await harness.clock.settle();
  expect(harness.destination.calls).toHaveLength(0);
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(1);
  await harness.stop();
});

describe('the start position', () => {
  test('of a new destination is the newest event, or the oldest on request', async () => {
    for (const startFrom of ['now', 'earliest'] as const) {
      const harness = createHarness();
      await harness.append(...eventsOf(['a'], 2));
      await harness.start({ startFrom });
      await harness.append(...eventsOf(['a'], 3).slice(2));
      await harness.drained();
      expect(harness.destination.taken).toHaveLength(startFrom === 'now' ? 1 : 3);
      await harness.stop();
    }
  });

  test('after a restart is the cursor, whatever startFrom says', async () => {
    const first = createHarness();
    await first.append(...eventsOf(['a'], 2));
    await first.start();
    await first.drained();
    await first.stop();
    await first.append(...eventsOf(['a'], 4).slice(2));
    const second = createHarness({ ledger: first.ledger });
    await second.start({ startFrom: 'now' });
    await second.drained();
    expect(second.destination.taken).toStrictEqual(['a-2', 'a-3']);
    await second.stop();
  });

  test('of a destination that was deleted and applied again loses nothing', async () => {
    const harness = createHarness();
    await harness.append(...eventsOf(['a'], 2));
    await harness.start();
    await harness.drained();
    await harness.delivery.apply([]);
    expect(harness.ledger.cursors()).toMatchObject([
      { sequence: 2, retiredAt: expect.any(Number) },
    ]);
    expect(harness.delivery.statuses()).toStrictEqual([]);
    await harness.append(...eventsOf(['a'], 4).slice(2));
    await harness.start({ startFrom: 'now' });
    await harness.drained();
    expect(harness.destination.taken).toHaveLength(4);
    expect(harness.ledger.cursors()[0]).not.toHaveProperty('retiredAt');
    await harness.stop();
  });

  test('of a destination that another process feeds is left alone, and holds what that one is still to get', async () => {
    const harness = createHarness({ othersFeed: true });
    await harness.append(...eventsOf(['a'], 2));
    await harness.ledger.commitCursor('another', 1);
    await harness.start();
    await harness.clock.until(() => harness.delivery.status('fake')?.cursor === 2);
    expect(harness.ledger.cursors()).toMatchObject([
      { destination: 'another', sequence: 1 },
      { destination: 'fake', sequence: 2 },
    ]);
    for (const cursor of harness.ledger.cursors()) expect(cursor).not.toHaveProperty('retiredAt');
    await harness.stop();
  });

  test('of a destination that comes back too late shows what it has missed', async () => {
    const ledger = createMemoryLedger();
    let lowWater = 0;
    const harness = createHarness({ ledger: { ...ledger, lowWater: () => lowWater } });
    await harness.append(...eventsOf(['a'], 2));
    await harness.start();
    await harness.drained();
    await harness.delivery.apply([]);
    await harness.append(...eventsOf(['a'], 6).slice(2));
    lowWater = 5;
    await harness.start();
    await harness.drained();
    const stated = harness.lines.filter((line) => line.includes('no longer in the ledger'));
    expect(stated).toHaveLength(1);
    expect(stated[0]).toContain('3 events after the cursor are no longer');
    expect(stated[0]).toMatch(/because it was retired at .* and RETENTION has passed since/);
    expect(stated[0]).toContain('cursor: "2": it goes on with event 6');
    await harness.stop();
  });

  test('is not taken over by a destination of another type under the same name', async () => {
    const harness = createHarness();
    harness.destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
    await harness.append(...eventsOf(['a'], 2));
    await harness.start();
    await harness.drained();
    await harness.delivery.apply([]);
    await harness.delivery.apply([
      {
        ...testSettings({ startFrom: 'now' }),
        type: 'webhook',
        options: { url: 'http://127.0.0.1:1', secrets: [], headers: new Map(), source: 's' },
      },
    ]);
    await harness.clock.settle();
    expect(harness.delivery.status('fake')).toMatchObject({ cursor: 2, deadLetters: 2, parked: 0 });
    const page = await harness.delivery.deadLetters('fake', 0, 10);
    expect(page?.deadLetters[0]?.reason).toBe('was waiting for the noop destination of this name');
    await harness.stop();
  });
});

describe('a change of settings', () => {
  test('leaves a destination alone that it does not concern', async () => {
    const harness = createHarness();
    await harness.start();
    await harness.delivery.apply([testSettings()]);
    expect(harness.destination.closed).toBe(false);
    await harness.delivery.apply([testSettings({ metrics: { exclude: ['x'] } })]);
    expect(harness.destination.closed).toBe(true);
    await harness.stop();
  });

  test('ends a wait, since an operator may just have fixed it', async () => {
    const harness = createHarness();
    harness.destination.react = () => 'unauthorized';
    await harness.append(...eventsOf(['a']));
    await harness.start();
    harness.destination.react = () => 'accept';
    const before = harness.clock.monotonic();
    await harness.start({ metrics: { exclude: ['x'] } });
    await harness.clock.settle();
    expect(harness.destination.taken).toHaveLength(1);
    expect(harness.clock.monotonic()).toBe(before);
    await harness.stop();
  });

  test('to suspended keeps the place and sends nothing, until it is resumed', async () => {
    const harness = createHarness();
    await harness.start({ suspend: true });
    await harness.append(...eventsOf(['a'], 3));
    await harness.clock.settle();
    expect(harness.destination.calls).toHaveLength(0);
    expect(harness.delivery.status('fake')).toMatchObject({
      suspended: true,
      ready: false,
      lagEvents: 3,
    });
    await harness.start({ suspend: false });
    await harness.drained();
    expect(harness.destination.taken).toHaveLength(3);
    await harness.stop();
  });
});

test('a destination whose settings cannot be used says so and keeps its place', async () => {
  const ledger = createMemoryLedger();
  const harness = createHarness({ ledger });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  await harness.stop();
  await harness.append(...eventsOf(['a'], 2).slice(1));

  const { Delivery } = await import('./delivery.ts');
  const { Registry } = await import('prom-client');
  const { createMemoryLogger } = await import('../telemetry/testing/memory-logger.ts');
  const logger = createMemoryLogger();
  const catalog = { metrics: [], find: () => undefined };
  const delivery = new Delivery({
    ledger,
    logger,
    catalog: () => catalog,
    clock: harness.clock,
    random: Math.random,
    registry: new Registry(),
    maxBackfillMs: () => 0,
    tenants: { find: () => undefined, subscribe: () => () => undefined },
    createDestination: () => ({ kind: 'invalid', reason: 'no key: STRIPE_API_KEY' }),
  });
  const stop = new AbortController();
  const running = delivery.run(stop.signal);
  const never = testSettings({ name: 'never used', startFrom: 'now' });
  await delivery.apply([testSettings(), never]);
  await harness.append(...eventsOf(['a'], 3).slice(2));
  expect(delivery.status('never used')).toMatchObject({ cursor: 2, lagEvents: 1 });
  expect(delivery.status('fake')).toMatchObject({
    ready: false,
    blocked: 'no key: STRIPE_API_KEY',
    cursor: 1,
    lagEvents: 2,
  });
  expect(ledger.cursors()[0]).not.toHaveProperty('retiredAt');
  expect((await delivery.offboard(tenantNamed('a'))).kind).toBe('written');
  expect(logger.lines).toContain('error [fake] cannot be used: no key: STRIPE_API_KEY');
  stop.abort();
  await running;
});

describe('a custom resource whose spec cannot be used', () => {
  const message = 'spec.lago.apiKeySecretRef: no such Secret: "billing-lago"';
  const problem = { reason: 'SecretNotFound', message };
  const lago = { name: 'lago', type: 'lago', suspend: false, problem };
  const fake = { name: 'fake', type: 'noop', suspend: false };

  test('is not among the destinations, so nobody who looks there learns of it', async () => {
    const harness = createHarness({ existing: () => [fake, lago] });
    await harness.append(...eventsOf(['a'], 2));
    await harness.ledger.commitCursor('lago', 1);
    await harness.start();
    await harness.clock.until(() => harness.delivery.status('fake')?.cursor === 2);
    expect(harness.delivery.statuses().map(({ name, ready }) => [name, ready])).toStrictEqual([
      ['fake', true],
      ['lago', false],
    ]);
    expect(harness.delivery.status('lago')).toMatchObject({
      type: 'lago',
      blocked: message,
      problem: { ...problem, inForce: false },
      cursor: 1,
      lagEvents: 1,
    });
    expect(harness.ledger.cursors().map(({ retiredAt }) => retiredAt)).toStrictEqual([
      undefined,
      undefined,
    ]);
    await harness.stop();
  });

  test('forgets to end the tenants that left while it could not start', async () => {
    let existing: readonly (typeof lago)[] = [lago];
    const destination = createFakeDestination({ name: 'lago' });
    const harness = createHarness({
      destinations: new Map([['lago', destination]]),
      existing: () => existing,
    });
    await harness.append(...eventsOf(['a']));
    await harness.start();
    await harness.delivery.apply([testSettings({ name: 'lago', startFrom: 'earliest' })]);
    await harness.clock.until(() => destination.taken.length === 1);
    await harness.delivery.apply([]);
    await harness.delivery.offboard(tenantNamed('a'));
    existing = [];
    await harness.delivery.apply([testSettings({ name: 'lago' })]);
    await harness.clock.until(() => destination.offboarded.length > 0);
    expect(destination.offboarded).toStrictEqual(['a']);
    await harness.stop();
  });

  test('is listed, and unknown to every operation upon it', async () => {
    const harness = createHarness({ existing: () => [lago] });
    await harness.start();
    const { delivery } = harness;
    const failed = { kind: 'failed', reason: message };
    expect(await delivery.deadLetters('lago', 0, 10)).toStrictEqual({ deadLetters: [] });
    expect(await delivery.replay('lago', undefined)).toStrictEqual(failed);
    expect(await delivery.discard('lago', undefined)).toStrictEqual(failed);
    expect(await delivery.moveCursor('lago', 0)).toStrictEqual(failed);
    const [event] = eventsOf(['a'], 1);
    if (event === undefined) throw new Error('no event');
    const prediction = await delivery.predictCorrection('lago', { event, sequence: 1 });
    expect(prediction).toMatchObject({ state: 'cannot-start' });
    await harness.stop();
  });

  test('looks well because its last good settings go on', async () => {
    const harness = createHarness({ existing: () => [{ ...fake, problem }] });
    await harness.start();
    await harness.drained();
    expect(harness.delivery.statuses()).toMatchObject([
      { name: 'fake', delivering: true, ready: false, problem: { ...problem, inForce: true } },
    ]);
    await harness.stop();
  });

  test('is shown as refused before anybody has looked at it', async () => {
    const harness = createHarness({ existing: () => [{ ...fake, name: 'new' }] });
    await harness.start();
    expect(harness.delivery.status('new')).toBeUndefined();
    expect(await harness.delivery.deadLetters('new', 0, 10)).toBeUndefined();
    await harness.stop();
  });
});

test('an operator who moves the cursor in the ledger itself is obeyed', async () => {
  const harness = createHarness();
  await harness.append(...eventsOf(['a'], 3));
  await harness.start();
  await harness.drained();
  await harness.ledger.moveCursor('fake', 1);
  await harness.append(...eventsOf(['a'], 4).slice(3));
  await harness.drained();
  expect(harness.destination.calls.flat()).toStrictEqual([
    'a-0',
    'a-1',
    'a-2',
    'a-3',
    'a-1',
    'a-2',
    'a-3',
  ]);
  await harness.stop();
});
