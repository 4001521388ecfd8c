import { afterEach, expect, test, vi } from 'vitest';
import { type FakeLago, type FakeLagoOptions, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import { correctionOf } from '../model/correction.ts';
import {
  decimalFromNanos,
  nanosFromDecimal,
  parseSigned,
  signedFromNanos,
} from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import { createFastClock } from './testing/fast-clock.ts';
import { tenantNamed } from './testing/harness.ts';
import { type LiveDelivery, startLiveDelivery } from './testing/live-delivery.ts';
import { lagoOptions } from './testing/vendor-options.ts';

const AFTER_THE_MONTH = Date.UTC(2026, 11, 1, 1);
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface World extends LiveDelivery {
  readonly lago: FakeLago;
  readonly ledger: Ledger;
  readonly tenants: Map<string, Tenant>;
  readonly settings: DestinationSettings;
}

async function createWorld(
  options: Partial<FakeLagoOptions> = {},
  before?: { readonly lago: FakeLago; readonly ledger: Ledger },
): Promise<World> {
  const clock = createFastClock(TEST_WINDOW_START + 3_600_000);
  const lago =
    before?.lago ?? (await startFakeLago({ apiKey: 'key', now: () => clock.now(), ...options }));
  if (before === undefined) closers.push(() => lago.close());
  const ledger = before?.ledger ?? createMemoryLedger();
  const tenants = new Map<string, Tenant>();
  const settings: DestinationSettings = {
    name: 'billing_c',
    type: 'lago',
    suspend: false,
    startFrom: 'earliest',
    options: lagoOptions(lago.url),
  };
  const live = await startLiveDelivery({ ledger, clock, tenants, destinations: [settings] });
  closers.push(() => live.stop());
  return { ...live, lago, ledger, tenants, settings };
}

/** `windows` minutes of two metrics for each tenant. */
function usage(tenants: readonly string[], windows: number, first = 0): UsageEvent[] {
  return Array.from({ length: windows }, (_, window) =>
    tenants.flatMap((tenant) =>
      ['tenant_gpu_hours', 'tenant_lb_hours'].map((metric) => ({
        ...testEvent({
          tenant,
          id: `${tenant}:${metric}:${first + window}`,
          windowStart: TEST_WINDOW_START + (first + window) * 60_000,
          quantity: '0.133333333',
        }),
        metric,
      })),
    ),
  ).flat();
}

async function drained({ ledger, delivery }: World): Promise<void> {
  await vi.waitFor(
    () => {
      const status = delivery.status('billing_c');
      expect(status?.cursor).toBe(ledger.head());
      expect(status?.parked).toBe(0);
    },
    { timeout: 20_000, interval: 5 },
  );
}

/** What is on final invoices when the month is over, each event on one line. */
function invoiced({ lago }: World): Map<string, string> {
  lago.turnTo(AFTER_THE_MONTH);
  const { invoices, events } = lago.account();
  expect(events.filter(({ lines }) => lines !== 1)).toStrictEqual([]);
  const nanos = new Map<string, bigint>();
  for (const { customer, lines } of invoices) {
    for (const { metric, units, events: counted } of lines) {
      const quantity = parseSigned(units);
      if (counted.length === 0 || quantity === undefined) continue;
      const key = `${customer} ${metric}`;
      nanos.set(key, (nanos.get(key) ?? 0n) + nanosFromDecimal(quantity));
    }
  }
  return new Map([...nanos].map(([key, sum]) => [key, signedFromNanos(sum)]));
}

function sums(events: readonly UsageEvent[]): Map<string, string> {
  const nanos = new Map<string, bigint>();
  for (const { tenant, metric, quantity } of events) {
    const key = `${tenant} ${metric}`;
    nanos.set(key, (nanos.get(key) ?? 0n) + nanosFromDecimal(quantity));
  }
  return new Map([...nanos].map(([key, sum]) => [key, decimalFromNanos(sum)]));
}

test.each(['postgres', 'clickhouse'] as const)(
  'a Lago on %s that resets, times out after it took a batch, and answers 429 and 500 invoices exactly the ledger',
  async (store) => {
    const world = await createWorld({ store });
    const events = usage(['a', 'b.with.dots', 'c'], 120);
    const { misbehaviours } = world.lago;
    misbehaviours.add({ kind: 'commit-then-reset', every: 3, times: 12, path: '/api/v1/events' });
    misbehaviours.add({ kind: 'status', status: 500, every: 5, times: 12 });
    misbehaviours.add({ kind: 'reset', every: 7, times: 12 });
    const headers = { 'X-RateLimit-Reset': '2' };
    misbehaviours.add({ kind: 'status', status: 429, headers, every: 4, times: 12 });
    await world.ledger.append({ events });
    await drained(world);
    expect(invoiced(world)).toStrictEqual(sums(events));
    expect(world.delivery.status('billing_c')).toMatchObject({ deadLetters: 0, ready: true });
  },
);

test('a correction is taken off the invoice, to the ninth decimal', async () => {
  const world = await createWorld();
  const [mistaken, ...others] = usage(['a'], 2);
  if (mistaken === undefined) throw new Error('no event');
  await world.ledger.append({ events: [mistaken, ...others] });
  await drained(world);
  const note = { reason: 'pushed twice', author: 'ann' };
  const at = '2026-11-21T10:00:00Z';
  const undone = correctionOf({ event: mistaken, sequence: 1 }, 1, -133_333_333n, at, note);
  await world.ledger.append({ events: [undone] });
  await drained(world);
  expect(invoiced(world)).toStrictEqual(sums(others));
  const day = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
  const { signal } = new AbortController();
  const outcome = await world.delivery.reconcile('billing_c', day, signal);
  if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
  expect(outcome.rows.map(({ difference }) => difference)).toStrictEqual(['0', '0']);
});

test('backfilled usage from before the tenant was first delivered is invoiced', async () => {
  const world = await createWorld();
  world.tenants.set('a', tenantNamed('a', { createdAt: 0 }));
  const newest = usage(['a'], 1, 300);
  const backfilled = usage(['a'], 60);
  await world.ledger.append({ events: newest });
  await drained(world);
  await world.ledger.append({ events: backfilled });
  await drained(world);
  expect(invoiced(world)).toStrictEqual(sums([...newest, ...backfilled]));
});

test('a subscription that somebody ended in Lago is noticed, and nothing goes unbilled', async () => {
  const world = await createWorld();
  await world.ledger.append({ events: usage(['a'], 2) });
  await drained(world);
  await world.stop();
  const headers = { authorization: 'Bearer key' };
  await fetch(`${world.lago.url}/api/v1/subscriptions/sub-a`, { method: 'DELETE', headers });
  const later = await createWorld({}, world);
  await later.ledger.append({ events: usage(['a'], 4, 200) });
  await drained(later);
  expect(world.lago.state.subscriptions.map(({ status }) => status)).toStrictEqual([
    'terminated',
    'active',
  ]);
  expect(invoiced(later)).toStrictEqual(sums([...usage(['a'], 2), ...usage(['a'], 4, 200)]));
});

test('a tenant is offboarded after its last event, and all of it is invoiced', async () => {
  const world = await createWorld();
  world.lago.misbehaviours.add({ kind: 'status', status: 503, path: '/api/v1/events', times: 4 });
  const events = usage(['a', 'b'], 60);
  await world.ledger.append({ events });
  await world.delivery.offboard(tenantNamed('a'));
  await drained(world);
  await vi.waitFor(() => expect(world.delivery.status('billing_c')?.offboarding).toBe(0));
  expect(
    world.lago.state.subscriptions.map(({ external_id, status }) => [external_id, status]),
  ).toStrictEqual([
    ['sub-a', 'terminated'],
    ['sub-b', 'active'],
  ]);
  expect(invoiced(world)).toStrictEqual(sums(events));
});

test('a tenant with a plan that does not exist blocks nobody, and is invoiced when it is fixed', async () => {
  const world = await createWorld();
  world.tenants.set('bad', tenantNamed('bad', { plan: 'platinum' }));
  const events = usage(['bad', 'good'], 30);
  await world.ledger.append({ events });
  await vi.waitFor(() => {
    expect(world.delivery.status('billing_c')).toMatchObject({
      cursor: 120,
      ready: true,
      parkedTenants: [{ tenant: 'bad', reason: 'no such plan in Lago: plan: "platinum"' }],
    });
  });
  const taken = [...world.lago.state.events.values()];
  expect(new Set(taken.map((event) => event.external_subscription_id))).toStrictEqual(
    new Set(['sub-good']),
  );
  world.tenants.set('bad', tenantNamed('bad'));
  await drained(world);
  expect(invoiced(world)).toStrictEqual(sums(events));
});

test('a wrong key is reported as specified, and no secret reaches a log line', async () => {
  const world = await createWorld({ apiKey: 'other' });
  await world.ledger.append({ events: usage(['a'], 1) });
  await vi.waitFor(() => expect(world.delivery.status('billing_c')?.blocked).toBeDefined());
  expect(world.lines[0]).toBe(
    'warn [bootstrap] warning: billing_c: lago-style API error 401: check the API key',
  );
  expect(JSON.stringify([world.lines, world.delivery.statuses()])).not.toContain('Bearer');
});

test('reconciliation shows what Lago has, what is on its way and what is set aside', async () => {
  const world = await createWorld();
  world.tenants.set('parked', tenantNamed('parked', { plan: 'platinum' }));
  const day = Date.UTC(2026, 10, 21);
  await world.ledger.append({ events: usage(['a', 'parked'], 30) });
  await vi.waitFor(() => expect(world.delivery.status('billing_c')?.cursor).toBe(120));
  const [, second] = world.lago.state.events.keys();
  world.lago.state.events.delete(second ?? '');
  world.lago.misbehaviours.add({ kind: 'status', status: 503, path: '/api/v1/events/batch' });
  await world.ledger.append({ events: usage(['a'], 3, 30) });
  const outcome = await world.delivery.reconcile(
    'billing_c',
    { from: day, to: day + 86_400_000 },
    new AbortController().signal,
  );
  if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
  const row = { ledger: '4.399999989', delivered: '3.99999999', pending: '0.399999999' };
  const none = { deadLetters: '0', parked: '0', withheld: '0' };
  expect(outcome.rows).toStrictEqual([
    {
      tenant: 'a',
      metric: 'tenant_gpu_hours',
      ...row,
      ...none,
      reported: '3.99999999',
      difference: '0',
    },
    {
      tenant: 'a',
      metric: 'tenant_lb_hours',
      ...row,
      ...none,
      reported: '3.866666657',
      difference: '-0.133333333',
    },
    ...['tenant_gpu_hours', 'tenant_lb_hours'].map((metric) => ({
      tenant: 'parked',
      metric,
      ledger: '3.99999999',
      delivered: '0',
      pending: '0',
      deadLetters: '0',
      parked: '3.99999999',
      withheld: '0',
      reported: '0',
      difference: '0',
    })),
  ]);
  expect(
    await world.delivery.reconcile('billing_c', { from: 1, to: day }, new AbortController().signal),
  ).toMatchObject({ kind: 'failed' });
});
