import { expect, test } from 'vitest';
import type { Ledger, LedgerFailure } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createFakeDestination, type Reaction } from '../testing/fake-destination.ts';
import { createHarness, eventsOf } from '../testing/harness.ts';

test('every event arrives, in order, and the cursor follows', async () => {
  const harness = createHarness();
  const events = eventsOf(['a', 'b', 'c'], 9);
  await harness.append(...events);
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(events.map(({ id }) => id));
  expect(harness.destination.calls.map((ids) => ids.length)).toStrictEqual([10, 10, 7]);
  await harness.append(...eventsOf(['late']));
  await harness.drained();
  expect(harness.destination.taken.at(-1)).toBe('late-0');
  await harness.stop();
});

test('a batch is bounded by bytes where the destination bounds them', async () => {
  const destination = createFakeDestination({
    limits: {
      batchBytes: { most: 250, sizeOf: ({ tenant }) => (tenant === 'big' ? 1000 : 100) },
    },
  });
  const harness = createHarness({ destination });
  await harness.append(...eventsOf(['a', 'b', 'c', 'big', 'd']));
  await harness.start();
  await harness.drained();
  expect(destination.calls).toStrictEqual([['a-0', 'b-0'], ['c-0'], ['big-0'], ['d-0']]);
  await harness.stop();
});

test('a destination that took a batch and did not say so gets it again, and bills it once', async () => {
  const harness = createHarness();
  const reactions: Reaction[] = ['lost', 'reset', 'accept'];
  harness.destination.react = () => reactions.shift() ?? 'accept';
  await harness.append(...eventsOf(['a', 'b']));
  await harness.start();
  await harness.drained();
  expect(harness.destination.calls).toHaveLength(3);
  expect(harness.destination.taken).toStrictEqual(['a-0', 'b-0']);
  await harness.stop();
});

test('a storm of 429 and 503 delays events and loses none', async () => {
  const harness = createHarness();
  const events = eventsOf(['a', 'b', 'c', 'd'], 10);
  let calls = 0;
  const storm: Reaction[] = ['unavailable', 'limited', 'accept', 'reset'];
  harness.destination.react = () => storm[calls++ % storm.length] ?? 'accept';
  await harness.append(...events);
  await harness.start();
  await harness.drained();
  expect(new Set(harness.destination.taken)).toStrictEqual(new Set(events.map(({ id }) => id)));
  expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 0, parked: 0 });
  await harness.stop();
});

test('Retry-After is obeyed though the own backoff is shorter', async () => {
  const harness = createHarness();
  harness.destination.react = () => 'limited';
  await harness.append(...eventsOf(['a']));
  await harness.start();
  expect(harness.destination.calls).toHaveLength(1);
  await harness.clock.pass(29_000);
  expect(harness.destination.calls).toHaveLength(1);
  await harness.clock.pass(2_000);
  expect(harness.destination.calls).toHaveLength(2);
  await harness.stop();
});

test('one poisonous event among many is found and becomes a dead letter with its reason', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.some(({ tenant }) => tenant === 'bad') ? 'refuse' : 'accept';
  await harness.append(...eventsOf(['a', 'b', 'bad', 'c', 'd', 'e', 'f', 'g']));
  await harness.start();
  await harness.drained();
  expect(new Set(harness.destination.taken)).toStrictEqual(
    new Set(['a-0', 'b-0', 'c-0', 'd-0', 'e-0', 'f-0', 'g-0']),
  );
  const page = await harness.delivery.deadLetters('fake', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    { sequence: 3, reason: 'status 400', event: { id: 'bad-0' } },
  ]);
  await harness.stop();
});

test('only the rejected part of a batch becomes dead letters', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(({ tenant }) =>
      tenant === 'bad' ? { kind: 'rejected', reason: 'no such code' } : { kind: 'delivered' },
    );
  await harness.append(...eventsOf(['a', 'bad', 'c']));
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0', 'c-0']);
  expect(harness.destination.calls).toHaveLength(1);
  expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 1, delivered: 2 });
  await harness.stop();
});

test('a wrong key holds the destination and is tried again with one event', async () => {
  const harness = createHarness();
  harness.destination.react = () => 'unauthorized';
  await harness.append(...eventsOf(['a', 'b', 'c']));
  await harness.start();
  expect(harness.delivery.status('fake')).toMatchObject({
    ready: false,
    delivering: false,
    blocked: 'status 401',
    lastError: 'status 401',
  });
  await harness.clock.pass(299_000);
  expect(harness.destination.calls).toHaveLength(1);
  harness.destination.react = () => 'accept';
  await harness.drained();
  expect(harness.destination.calls[1]).toHaveLength(1);
  const status = harness.delivery.status('fake');
  expect(status).toMatchObject({ ready: true, delivered: 3, deadLetters: 0 });
  expect(status).not.toMatchObject({ blocked: expect.anything() });
  expect(status).not.toMatchObject({ lastError: expect.anything() });
  await harness.stop();
});

test('an event that the destination chokes on for ever does not hold up the others', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.some(({ tenant }) => tenant === 'bad') ? 'unavailable' : 'accept';
  await harness.append(...eventsOf(['bad', 'a', 'b', 'c'], 3));
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(9);
  expect(harness.delivery.status('fake')).toMatchObject({
    deadLetters: 0,
    parked: 3,
    parkedTenants: [{ tenant: 'bad', events: 3 }],
  });
  expect(harness.lines).toContain(
    'warn [fake] tenant bad is parked: keeps failing while others are accepted: status 503',
  );
  harness.destination.react = () => 'accept';
  await harness.clock.until(() => harness.destination.taken.length === 12);
  expect(harness.destination.taken.slice(9)).toStrictEqual(['bad-0', 'bad-1', 'bad-2']);
  await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
  await harness.stop();
});

test('an outage sets nobody aside, however long it is', async () => {
  const harness = createHarness();
  harness.destination.react = () => 'unavailable';
  await harness.append(...eventsOf(['a', 'b', 'c'], 5));
  await harness.start();
  await harness.clock.pass(48 * 3_600_000);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, deadLetters: 0, cursor: 0 });
  expect(harness.lines.length).toBeLessThan(60 * 48 + 10);
  harness.destination.react = () => 'accept';
  await harness.drained();
  expect(harness.destination.taken).toHaveLength(15);
  expect(harness.delivery.status('fake')).toMatchObject({ parked: 0, deadLetters: 0 });
  await harness.stop();
});

test('nothing is sent before the destination is prepared, and preparing is retried without end', async () => {
  const harness = createHarness();
  harness.destination.reactToBootstrap = () => ({
    kind: 'retry',
    reason: 'HTTP GET /api/v1/billable_metrics: connection refused',
  });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.clock.pass(3_600_000);
  expect(harness.destination.calls).toHaveLength(0);
  expect(harness.delivery.status('fake')).toMatchObject({ bootstrapped: false, ready: false });
  expect(harness.lines[0]).toBe(
    'warn [bootstrap] warning: fake: HTTP GET /api/v1/billable_metrics: connection refused',
  );
  harness.destination.reactToBootstrap = () => ({ kind: 'done' });
  await harness.drained();
  expect(harness.delivery.status('fake')).toMatchObject({ bootstrapped: true, ready: true });
  await harness.stop();
});

test('a metric that comes into the catalogue is prepared before its first event', async () => {
  const harness = createHarness();
  await harness.start();
  expect(harness.destination.bootstraps).toHaveLength(1);
  harness.addMetrics([{ code: 'tokens', unit: 'tokens', dimensions: [] }]);
  await harness.append({ ...testEvent(), metric: 'tokens' });
  await harness.drained();
  expect(harness.destination.bootstraps[1]).toContain('tokens');
  await harness.stop();
});

test('metrics that the destination does not want pass by, and one that is declared no longer does not', async () => {
  const destination = createFakeDestination({ accepts: ({ informational }) => !informational });
  const harness = createHarness({ destination });
  const metrics = ['tenant_gpu_downtime_hours', 'tenant_lb_hours', 'tenant_instance_hours'];
  const events = metrics.map((metric) => ({ ...testEvent(), id: metric, metric }));
  await harness.append(...events, { ...testEvent(), id: 'gone', metric: 'removed_since' });
  await harness.start({ metrics: { exclude: ['tenant_lb_hours'] } });
  await harness.drained();
  expect(destination.taken).toStrictEqual(['tenant_instance_hours', 'gone']);
  expect(harness.delivery.status('fake')).toMatchObject({ delivered: 2, skipped: 2 });
  expect(destination.bootstraps[0]).not.toContain('tenant_lb_hours');
  await harness.stop();
});

test('a destination with a list of metrics gets these and no others', async () => {
  const destination = createFakeDestination({ accepts: ({ informational }) => !informational });
  const harness = createHarness({ destination });
  const metrics = ['tenant_gpu_utilization', 'tenant_lb_hours', 'tenant_instance_hours'];
  const events = metrics.map((metric) => ({ ...testEvent(), id: metric, metric }));
  await harness.append(...events, { ...testEvent(), id: 'gone', metric: 'removed_since' });
  await harness.start({
    metrics: {
      include: ['tenant_gpu_utilization', 'tenant_lb_hours'],
      exclude: ['tenant_lb_hours'],
    },
  });
  await harness.drained();
  expect(destination.taken).toStrictEqual(['tenant_gpu_utilization']);
  expect(harness.delivery.status('fake')).toMatchObject({ delivered: 1, skipped: 3 });
  expect(destination.bootstraps[0]).toStrictEqual(['tenant_gpu_utilization']);
  await harness.stop();
});

test('a filter that names a metric nobody knows says so until the metric is declared', async () => {
  const harness = createHarness();
  await harness.start({
    metrics: { include: ['tenant_lb_hours', 'tokens'], exclude: ['tenant_gpu_hour'] },
  });
  const unknown = (): readonly string[] | undefined =>
    harness.delivery.status('fake')?.unknownMetrics;
  expect(unknown()).toStrictEqual(['tokens', 'tenant_gpu_hour']);
  harness.addMetrics([{ code: 'tokens', unit: 'tokens', dimensions: [] }]);
  expect(unknown()).toStrictEqual(['tenant_gpu_hour']);
  await harness.stop();
});

test('a destination that throws is at fault itself and loses nothing', async () => {
  const harness = createHarness();
  let calls = 0;
  harness.destination.react = () => {
    calls += 1;
    if (calls === 1) throw new Error('bug');
    return 'accept';
  };
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  expect(harness.destination.taken).toStrictEqual(['a-0']);
  expect(harness.lines).toContain('warn [fake] send failed: bug');
  await harness.stop();
});

/** A ledger in memory of which one operation fails while `failing` names it. */
function failingLedger() {
  const inner = createMemoryLedger();
  const state: { failing?: 'read' | 'writeRecords' | 'commitCursor' } = {};
  const failed: LedgerFailure = { kind: 'failed', cause: 'retryable', message: 'disk full' };
  const ledger: Ledger = {
    ...inner,
    read: async (...given) => (state.failing === 'read' ? failed : inner.read(...given)),
    writeRecords: async (...given) =>
      state.failing === 'writeRecords' ? failed : inner.writeRecords(...given),
    commitCursor: async (...given) =>
      state.failing === 'commitCursor' ? failed : inner.commitCursor(...given),
  };
  return { ledger, state };
}

test('a ledger that cannot be read for a while delays events, says so, and loses none', async () => {
  const { ledger, state } = failingLedger();
  const harness = createHarness({ ledger });
  await harness.start();
  state.failing = 'read';
  await harness.append(...eventsOf(['a', 'b']));
  await harness.clock.pass(60_000);
  expect(harness.destination.calls).toStrictEqual([]);
  expect(harness.lines.some((line) => line.includes('[fake] disk full'))).toBe(true);
  delete state.failing;
  await harness.drained();
  expect(harness.destination.calls).toStrictEqual([['a-0', 'b-0']]);
  await harness.stop();
});

test('nothing is sent that could not be put on record as under way', async () => {
  const { ledger, state } = failingLedger();
  // It remembers ids for a day: what was sent before a crash must be known after it.
  const destination = createFakeDestination({ limits: { idMemoryMs: 86_400_000 } });
  const harness = createHarness({ ledger, destination });
  await harness.start();
  state.failing = 'writeRecords';
  await harness.append(...eventsOf(['a', 'b']));
  await harness.clock.pass(60_000);
  expect(destination.calls).toStrictEqual([]);
  expect(harness.lines.some((line) => line.includes('[fake] disk full'))).toBe(true);
  delete state.failing;
  await harness.drained();
  expect(destination.calls.flat()).toStrictEqual(['a-0', 'b-0']);
  await harness.stop();
});

test('what was delivered is not sent again while the cursor cannot be moved', async () => {
  const { ledger, state } = failingLedger();
  const harness = createHarness({ ledger });
  await harness.start();
  state.failing = 'commitCursor';
  await harness.append(...eventsOf(['a', 'b']));
  await harness.clock.pass(60_000);
  expect(harness.destination.calls).toStrictEqual([['a-0', 'b-0']]);
  expect(harness.lines.some((line) => line.includes('[fake] disk full'))).toBe(true);
  delete state.failing;
  await harness.drained();
  expect(harness.destination.calls).toStrictEqual([['a-0', 'b-0']]);
  await harness.stop();
});

test('a stop waits for the batch under way and closes the destination', async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const destination = createFakeDestination({ pause: () => held });
  const harness = createHarness({ destination });
  await harness.append(...eventsOf(['a', 'b']));
  await harness.start();
  const stopped = harness.stop();
  await harness.clock.settle();
  expect(destination.closed).toBe(false);
  release();
  await stopped;
  expect(destination.closed).toBe(true);
});

test('a stop does not wait for ever for a batch under way', async () => {
  const destination = createFakeDestination({
    pause: (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('cut')), { once: true });
      }),
  });
  const harness = createHarness({ destination });
  await harness.append(...eventsOf(['a']));
  await harness.start();
  const before = harness.clock.monotonic();
  let stopped = false;
  const stopping = harness.stop().then(() => {
    stopped = true;
  });
  await harness.clock.until(() => stopped);
  await stopping;
  expect(harness.clock.monotonic() - before).toBe(10_000);
  expect(harness.ledger.cursors()[0]?.sequence).toBe(0);
});

test('metrics show lag, deliveries and dead letters', async () => {
  const harness = createHarness();
  harness.destination.react = (events) =>
    events.map(({ tenant }) =>
      tenant === 'bad' ? { kind: 'rejected', reason: 'no' } : { kind: 'delivered' },
    );
  await harness.append(...eventsOf(['a', 'bad']));
  await harness.start();
  await harness.drained();
  harness.destination.react = () => 'unavailable';
  await harness.append(...eventsOf(['late']));
  await harness.clock.settle();
  const text = await harness.registry.metrics();
  expect(text).toContain('meterfeed_destination_delivered_total{destination="fake"} 1');
  expect(text).toContain('meterfeed_destination_rejected_total{destination="fake"} 1');
  expect(text).toContain('meterfeed_destination_retried_total{destination="fake"} 1');
  expect(text).toContain('meterfeed_destination_lag_events{destination="fake"} 1');
  expect(text).toMatch(/meterfeed_destination_lag_seconds\{destination="fake"\} 24\d/);
  await harness.stop();
});
