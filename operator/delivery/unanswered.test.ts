import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { startFakeStripe } from '../../e2e/fakes/stripe/stripe.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import { override } from '../model/override.ts';
import { TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import { openTestLedger } from '../ledger/testing/level-ledger.ts';
import { startTestServer } from '../outbound/testing/test-server.ts';
import { createFakeDestination, type FakeDestination } from './testing/fake-destination.ts';
import { createFastClock } from './testing/fast-clock.ts';
import { createHarness, eventsOf, type Harness, tenantNamed } from './testing/harness.ts';
import { type LiveDelivery, startLiveDelivery } from './testing/live-delivery.ts';
import { createVirtualClock, type VirtualClock } from './testing/virtual-clock.ts';
import { stripeOptions } from './testing/vendor-options.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const FIRST_ATTEMPT = Date.UTC(2026, 10, 21, 9, 5);
const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** The event `a-0` was taken without an answer and is refused after that; then the process ends. */
async function refusedAfterLost(
  destination: FakeDestination,
  clock: VirtualClock,
): Promise<Harness> {
  const harness = createHarness({ clock, destination });
  let calls = 0;
  destination.react = () => {
    calls += 1;
    return calls === 1 ? 'lost' : 'refuse';
  };
  await harness.append(...eventsOf(['a']));
  await harness.start();
  await harness.drained();
  return harness;
}

function forgetful(clock: VirtualClock, verifies: boolean): FakeDestination {
  const limits = { idMemoryMs: DAY_MS };
  return createFakeDestination({ limits, verifies, now: () => clock.now() });
}

async function letters({ delivery }: Pick<Harness, 'delivery'>, name = 'fake') {
  return (await delivery.deadLetters(name, 0, 100))?.deadLetters ?? [];
}

describe('a dead letter whose earlier attempt had no answer', () => {
  test('says so, and since when; one that was refused at once does not', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, false);
    const harness = await refusedAfterLost(destination, clock);
    await harness.append(testEvent({ tenant: 'b', id: 'b-0' }));
    await harness.drained();
    expect(await letters(harness)).toMatchObject([
      { event: { id: 'a-0' }, unansweredSince: FIRST_ATTEMPT },
      { event: { id: 'b-0' } },
    ]);
    expect((await letters(harness))[1]).not.toHaveProperty('unansweredSince');
    expect(await harness.ledger.record('delivery/fake/in-flight')).toBeUndefined();
    await harness.stop();
  });

  test('is sent once more without further ado while its id is remembered', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, false);
    const harness = await refusedAfterLost(destination, clock);
    await clock.pass(11 * HOUR_MS);
    destination.react = () => 'accept';
    expect(await harness.delivery.replay('fake', ['a-0'])).toMatchObject({ replayed: 1 });
    expect(destination.billedTwice).toStrictEqual([]);
    await harness.stop();
  });

  test('requires force where its id may be forgotten and no query can check it, also after a restart', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, false);
    const first = await refusedAfterLost(destination, clock);
    await first.stop();
    await clock.pass(2 * DAY_MS);
    destination.react = () => 'accept';
    const calls = destination.calls.length;
    const harness = createHarness({ clock, destination, ledger: first.ledger });
    await harness.start();
    expect(await harness.delivery.replay('fake', undefined)).toStrictEqual({
      kind: 'wants-force',
      reason:
        '1 event with an unanswered earlier attempt, the first on 2026-11-21T09:05:00Z: the destination may have accepted them, and remembers ids for 24 hours: events that it has accepted are billed twice',
    });
    expect(destination.calls).toHaveLength(calls);
    expect(await letters(harness)).toHaveLength(1);
    expect(await harness.delivery.replay('fake', undefined, true)).toMatchObject({
      replayed: 1,
      forced: expect.stringContaining('1 event with an unanswered earlier attempt'),
    });
    expect(destination.billedTwice).toStrictEqual(['a-0']);
    expect(await letters(harness)).toStrictEqual([]);
    await harness.stop();
  });

  test('is not billed twice where the destination can be queried, and needs no force', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, true);
    const harness = await refusedAfterLost(destination, clock);
    await clock.pass(2 * DAY_MS);
    destination.react = () => 'accept';
    const calls = destination.calls.length;
    expect(await harness.delivery.replay('fake', ['a-0'])).toMatchObject({ replayed: 1 });
    expect(destination.calls).toHaveLength(calls);
    expect(destination.billedTwice).toStrictEqual([]);
    await harness.stop();
  });

  test('that may or may not be there is sent by force only, and then once', async () => {
    const clock = createVirtualClock();
    const fake = forgetful(clock, true);
    let requested = 0;
    const destination = override<Destination, FakeDestination>(fake, {
      verify: async (events) => {
        requested += 1;
        const uncertain = new Map(events.map(({ id }) => [id, 'no telling']));
        return { kind: 'verified', known: new Set(), uncertain };
      },
    });
    const harness = await refusedAfterLost(destination, clock);
    await clock.pass(2 * DAY_MS);
    destination.react = () => 'accept';
    expect(await harness.delivery.replay('fake', ['a-0'])).toMatchObject({ stillRejected: 1 });
    expect(await letters(harness)).toMatchObject([
      {
        reason: 'no telling: replay it by force to send it anyway',
        unansweredSince: FIRST_ATTEMPT,
      },
    ]);
    expect(fake.billedTwice).toStrictEqual([]);

    // Its answer is lost once more, for two days: that it is to be sent by force is over.
    destination.react = () => 'lost';
    void harness.delivery.replay('fake', ['a-0'], true);
    await clock.until(() => fake.billedTwice.length === 1);
    destination.react = () => 'reset';
    await clock.pass(2 * DAY_MS);
    destination.react = () => 'accept';
    await clock.pass(HOUR_MS);
    expect(requested).toBeGreaterThan(2);
    expect(fake.billedTwice).toStrictEqual(['a-0']);
    expect(await letters(harness)).toHaveLength(1);
    await harness.stop();
  });

  test('is none that a destination which refuses everything has refused, however often', async () => {
    const clock = createVirtualClock();
    const destination = createFakeDestination({ limits: { batchEvents: 100 } });
    const harness = createHarness({ clock, destination });
    destination.react = () => 'refuse';
    await harness.append(...eventsOf(['a', 'b', 'c'], 500));
    await harness.start();
    await clock.until(() => harness.delivery.status('fake')?.blocked !== undefined);
    await clock.pass(HOUR_MS);
    destination.react = (events) =>
      events.map(({ tenant }) =>
        tenant === 'a' ? { kind: 'rejected', reason: 'no such code' } : { kind: 'delivered' },
      );
    await harness.drained();
    const page = await harness.delivery.deadLetters('fake', 1_000, 1_000);
    const found = page?.deadLetters ?? [];
    expect(found.length).toBeGreaterThan(100);
    expect(found.filter(({ unansweredSince }) => unansweredSince !== undefined)).toStrictEqual([]);
    await harness.stop();
  });

  test('keeps that through being parked', async () => {
    const clock = createVirtualClock();
    const destination = forgetful(clock, false);
    const first = await refusedAfterLost(destination, clock);
    destination.reactToTenant = () => ({ kind: 'rejected', reason: 'no plan' });
    await first.stop();
    const harness = createHarness({ clock, destination, ledger: first.ledger });
    await harness.start();
    harness.tenants.set(tenantNamed('a', { plan: 'other' }));
    const outcome = harness.delivery.replay('fake', ['a-0']);
    await clock.until(() => harness.delivery.status('fake')?.parked === 1);
    await clock.pass(2 * DAY_MS);
    await outcome;
    destination.reactToTenant = () => ({ kind: 'done' });
    destination.react = () => 'accept';
    harness.tenants.set(tenantNamed('a'));
    await clock.until(() => harness.delivery.status('fake')?.parked === 0);
    expect(destination.billedTwice).toStrictEqual([]);
    expect(await letters(harness)).toMatchObject([{ unansweredSince: FIRST_ATTEMPT }]);
    await harness.stop();
  });
});

/** The engine on a LevelDB ledger, delivering over HTTP; `ahead` is how far its time is ahead. */
async function operator(
  settings: DestinationSettings,
  directory: string,
  early: { ms: number },
): Promise<LiveDelivery & Pick<Harness, 'ledger'>> {
  const ledger = await openTestLedger(directory);
  const fast = createFastClock(TEST_WINDOW_START + 5 * 60_000);
  const clock = {
    ...fast,
    now: () => fast.now() + early.ms,
    monotonic: () => fast.monotonic() + early.ms,
  };
  const live = await startLiveDelivery({ ledger, clock, destinations: [settings] });
  const stop = async (): Promise<void> => {
    await live.stop();
    await ledger.close();
  };
  closers.push(stop);
  return { ...live, ledger, stop };
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'unanswered-'));
  closers.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test('a receiver that took an event, did not answer, and refused the repeat gets it again a day later unnoticed', async () => {
  const taken: string[] = [];
  let usage = 0;
  const server = await startTestServer((request, response, socket) => {
    const isUsage = request.body.includes('usage.v1');
    if (isUsage) usage += 1;
    if (isUsage && usage !== 2) taken.push(request.body);
    if (isUsage && usage === 1) socket.resetAndDestroy();
    else response.writeHead(isUsage && usage === 2 ? 422 : 202).end();
  });
  closers.push(() => server.close());
  const settings: DestinationSettings = {
    name: 'webhook',
    type: 'webhook',
    suspend: false,
    startFrom: 'earliest',
    options: { url: server.url, secrets: [], headers: new Map(), source: 'control-plane' },
  };
  const directory = temporaryDirectory();
  const early = { ms: 0 };
  const first = await operator(settings, directory, early);
  await first.ledger.append({ events: [testEvent({ id: 'evt_1' })] });
  await vi.waitFor(async () => expect(await letters(first, 'webhook')).toHaveLength(1), 20_000);
  await first.stop();
  early.ms = 25 * HOUR_MS;
  const later = await operator(settings, directory, early);
  await vi.waitFor(() => expect(later.delivery.status('webhook')?.deadLetters).toBe(1), 20_000);
  expect(await later.delivery.replay('webhook', undefined)).toMatchObject({
    kind: 'wants-force',
    reason: expect.stringContaining('may forget ids after 24 hours'),
  });
  expect(taken).toHaveLength(1);
  expect(await later.delivery.replay('webhook', undefined, true)).toMatchObject({
    kind: 'replayed',
  });
  await vi.waitFor(() => expect(taken).toHaveLength(2), 20_000);
});

test('Stripe, which took an event, did not answer, and refused the repeat, is queried a day later and bills it once', async () => {
  const time = { now: () => TEST_WINDOW_START };
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key', now: () => time.now() });
  closers.push(() => stripe.close());
  const path = '/v1/billing/meter_events';
  const error = { type: 'invalid_request_error', message: 'something is wrong with it' };
  stripe.misbehaviours.add({ kind: 'commit-then-reset', path, times: 1 });
  stripe.misbehaviours.add({ kind: 'status', status: 400, body: { error }, path, times: 1 });
  const settings: DestinationSettings = {
    name: 'stripe',
    type: 'stripe',
    suspend: false,
    startFrom: 'earliest',
    options: stripeOptions(stripe.url, { splitMetersBy: [], autoSubscribe: false }),
  };
  const directory = temporaryDirectory();
  const early = { ms: 0 };
  const first = await operator(settings, directory, early);
  await first.ledger.append({ events: [testEvent({ id: 'evt_1' })] });
  await vi.waitFor(async () => expect(await letters(first, 'stripe')).toHaveLength(1), 20_000);
  await first.stop();
  early.ms = 25 * HOUR_MS;
  const later = await operator(settings, directory, early);
  time.now = () => TEST_WINDOW_START + early.ms;
  await vi.waitFor(() => expect(later.delivery.status('stripe')?.deadLetters).toBe(1), 20_000);
  expect(await later.delivery.replay('stripe', undefined)).toMatchObject({ kind: 'replayed' });
  await vi.waitFor(() => expect(later.delivery.status('stripe')?.deadLetters).toBe(0), 20_000);
  expect(stripe.state.events).toHaveLength(1);
});
