import { beforeEach, describe, expect, test } from 'vitest';
import { loadEnvironment } from '../../settings/load-environment.ts';
import type { EnforcementSettings } from '../../settings/settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import { Inbox, type InboxOutcome } from './inbox.ts';
import { type QueryCustomer, createCustomers } from './states/customers.ts';
import { type QueryKeys, PinnedKeys } from './states/pinned-keys.ts';
import { SeenAlerts, REMEMBER_MS, secretName } from './states/seen-alerts.ts';
import { StateStore } from './states/state-store.ts';
import { effectiveState } from './states/tenant-record.ts';
import {
  asRequest,
  lagoMessage,
  metronomeMessage,
  type SignedMessage,
  stripeMessage,
  subscriptionEvent,
  WEBHOOK_SECRETS,
} from './testing/alerts.ts';
import { createLagoKeys, lagoHeaders, type LagoKeys } from '../../../e2e/fakes/lago/webhooks.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';
import { Secret } from '../../model/secret.ts';

const START = Date.parse('2026-11-21T09:00:00Z');
const MINUTE = 60_000;
const DAY = 86_400_000;
const SECRETS = new Set([secretName(new Secret(WEBHOOK_SECRETS.LAGO_WEBHOOK_SECRET))]);

let now = START;
let monotonic: () => number;
let ledger: Ledger;
let tenants: Tenant[];
let requested: string[];
let queryCustomer: QueryCustomer;
let queryKeys: QueryKeys;

const ACME = tenant('acme', { customerIds: { stripe: 'cus_1', metronome: 'uuid-1' } });

beforeEach(() => {
  now = START;
  monotonic = () => systemClock.monotonic();
  ledger = createMemoryLedger();
  tenants = [ACME];
  requested = [];
  queryCustomer = async () => ({ kind: 'unknown' });
  queryKeys = async () => ({ kind: 'failed', reason: 'connection refused' });
});

/** Enforcement's memory as a process that has just been started has it. */
async function startInbox(environment: Readonly<Record<string, string>> = {}, known = true) {
  const changed: string[][] = [];
  const reports: unknown[] = [];
  const store = new StateStore(ledger);
  const seen = new SeenAlerts(ledger);
  const customers = createCustomers({
    ledger,
    tenants: () => tenants,
    hasState: (id) => store.find(id) !== undefined,
    query: (provider, customer, signal) => {
      requested.push(`${provider} ${customer}`);
      return queryCustomer(provider, customer, signal);
    },
  });
  for (const kept of [store, seen, customers]) await kept.load();
  const inbox = new Inbox({
    settings: () => settings(environment),
    states: store,
    seen,
    customers,
    keys: new PinnedKeys({
      query: (...query) => queryKeys(...query),
      destinations: () => undefined,
      clock: { ...systemClock, monotonic: () => now },
      logger: createCapturingLogger(),
    }),
    report: async (provider, refusals, more) => {
      const written = await ledger.writeRecords(more);
      if (written.kind === 'written') reports.push({ provider, refusals });
      return written;
    },
    known: () => known,
    onChange: (ids) => changed.push([...ids]),
    clock: { ...systemClock, now: () => now, monotonic: () => monotonic() },
    logger: createCapturingLogger(),
  });
  const post = (provider: DestinationType, message: SignedMessage): Promise<InboxOutcome> =>
    inbox.receive(provider, asRequest(message), new AbortController().signal);
  const stateOf = (id: string) => {
    const record = store.find(id);
    return record === undefined ? undefined : effectiveState(record).state;
  };
  return { post, stateOf, changed, seen, reports };
}

const unpaid = (id: string, at = now) => stripeMessage(subscriptionEvent(id, 'unpaid', at), now);
const active = (id: string, at = now) => stripeMessage(subscriptionEvent(id, 'active', at), now);
const lagoAlert = (key: string, customer = 'acme', more: object = {}) =>
  lagoMessage(key, 'alert.triggered', 'triggered_alert', {
    lago_alert_id: 'a1',
    external_customer_id: customer,
    triggered_at: new Date(now).toISOString(),
    ...more,
  });

describe('a rightly signed message', () => {
  test('is durable when it is answered', async () => {
    const { post, changed } = await startInbox();
    expect(await post('stripe', unpaid('evt_1'))).toStrictEqual({
      kind: 'applied',
      tenants: ['acme'],
      state: 'suspended',
    });
    expect(changed).toStrictEqual([['acme']]);
    expect((await startInbox()).stateOf('acme')).toBe('suspended');
  });

  test('is not acknowledged when it cannot be stored', async () => {
    const failing: Ledger = {
      ...ledger,
      writeRecords: async () => ({ kind: 'failed', cause: 'full', message: 'no room' }),
    };
    const healthy = ledger;
    ledger = failing;
    const { post, stateOf, changed } = await startInbox();
    expect(await post('stripe', unpaid('evt_1'))).toMatchObject({ kind: 'unavailable' });
    expect(stateOf('acme')).toBeUndefined();
    expect(changed).toStrictEqual([]);
    ledger = healthy;
    const again = await startInbox();
    expect(await again.post('stripe', unpaid('evt_1'))).toMatchObject({ kind: 'applied' });
  });

  test('among many that arrive at the same moment keeps everybody else waiting until all are looked at', async () => {
    let looked = 0;
    monotonic = () => (looked += 10);
    const { post } = await startInbox();
    let isOver = false;
    let slices = 0;
    const count = (): void => {
      slices += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(
      Array.from({ length: 40 }, (_, index) => post('stripe', unpaid(`evt_${index}`))),
    );
    isOver = true;
    expect(slices).toBeGreaterThan(10);
  });

  test('of each billing system reaches its tenant', async () => {
    const { post, stateOf } = await startInbox();
    const spend = {
      id: 'm1',
      type: 'alerts.spend_threshold_reached',
      properties: { customer_id: 'uuid-1', alert_id: 'a1', timestamp: new Date(now).toISOString() },
    };
    expect(await post('metronome', metronomeMessage(spend, now))).toMatchObject({
      state: 'warning',
    });
    expect(await post('stripe', unpaid('evt_1'))).toMatchObject({ state: 'suspended' });
    expect(await post('lago', lagoAlert('k1'))).toMatchObject({ state: 'suspended' });
    expect(stateOf('acme')).toBe('suspended');
  });

  test('says nothing for others when many are under way at once', async () => {
    tenants = [ACME, tenant('b', { customerIds: { stripe: 'cus_2' } })];
    const { post, stateOf } = await startInbox();
    const messages = Array.from({ length: 50 }, (_, index) => {
      const status = index % 2 === 0 ? 'past_due' : 'active';
      const customer = index % 3 === 0 ? 'cus_2' : 'cus_1';
      const names = { customer, subscription: `sub_${index}` };
      return stripeMessage(subscriptionEvent(`evt_${index}`, status, now, names), now);
    });
    const outcomes = await Promise.all(messages.map((message) => post('stripe', message)));
    expect(outcomes.every(({ kind }) => kind === 'applied')).toBe(true);
    expect([stateOf('acme'), stateOf('b')]).toStrictEqual(['delinquent', 'delinquent']);
  });
});

describe('a replay', () => {
  test('of an id does nothing, before and after a restart (accident 40)', async () => {
    const first = await startInbox();
    await first.post('stripe', unpaid('evt_1'));
    now += MINUTE;
    await first.post('stripe', active('evt_2'));
    const duplicate = { kind: 'ignored', why: 'duplicate' };
    expect(await first.post('stripe', unpaid('evt_1'))).toMatchObject(duplicate);
    const second = await startInbox();
    expect(await second.post('stripe', unpaid('evt_1'))).toMatchObject(duplicate);
    expect(second.stateOf('acme')).toBe('active');
  });

  test('of Lago’s is known for 30 days, and for no longer than needed', async () => {
    const message = lagoAlert('k1');
    const first = await startInbox();
    expect(await first.post('lago', message)).toMatchObject({ kind: 'applied' });
    now += REMEMBER_MS - 1;
    await first.seen.prune(now, SECRETS);
    const second = await startInbox();
    expect(await second.post('lago', message)).toMatchObject({ why: 'duplicate' });
    now += 2;
    expect(await second.seen.prune(now, SECRETS)).toBe(0);
    const keys = [];
    for await (const [key] of ledger.records('enforcement/seen/')) keys.push(key);
    expect(keys).toStrictEqual([]);
  });

  test.each([
    ['a suspension', 'dunning_campaign.finished', 'dunning_campaign', {}],
    [
      'the lifting of one',
      'payment_request.payment_status_updated',
      'payment_request',
      { payment_status: 'succeeded' },
    ],
    ['an alert with a date', 'alert.triggered', 'triggered_alert', { triggered_at: iso(START) }],
    [
      'an alert with a date ahead of ours',
      'alert.triggered',
      'triggered_alert',
      { triggered_at: iso(START + 20 * DAY) },
    ],
  ])(
    'of Lago’s after 31 days does nothing, whatever its key: %s',
    async (_what, type, kind, more) => {
      const recorded = lagoMessage('k1', type, kind, { external_customer_id: 'acme', ...more });
      const first = await startInbox();
      expect(await first.post('lago', recorded)).toMatchObject({ kind: 'applied' });
      const before = first.stateOf('acme');
      now += DAY;
      // Meanwhile the opposite has happened.
      await first.post('stripe', before === 'active' ? unpaid('evt_1') : active('evt_1'));
      const state = first.stateOf('acme');
      now = START + 31 * DAY;
      await first.seen.prune(now, SECRETS);
      const second = await startInbox();
      const headers = { ...recorded.headers, 'X-Lago-Unique-Key': 'k2' };
      const replayed = await second.post('lago', { ...recorded, headers });
      expect(replayed).toMatchObject({ kind: 'ignored' });
      expect(second.stateOf('acme')).toBe(state);
      now = START + 400 * DAY;
      await second.seen.prune(now, SECRETS);
      expect(await second.post('lago', { ...recorded, headers })).toMatchObject({
        kind: 'ignored',
      });
    },
  );

  test('of a signed body of Lago under another key, which the signature does not cover, does nothing', async () => {
    const { post } = await startInbox();
    const message = lagoAlert('k1');
    await post('lago', message);
    const forged = { ...message, headers: { ...message.headers, 'X-Lago-Unique-Key': 'k2' } };
    expect(await post('lago', forged)).toMatchObject({ why: 'duplicate' });
  });

  test('of a recorded request of Stripe’s is refused after five minutes', async () => {
    const { post } = await startInbox();
    const message = unpaid('evt_1');
    now += 301_000;
    expect(await post('stripe', message)).toStrictEqual({ kind: 'refused' });
  });
});

test('an event that arrives after a newer one changes nothing, and is not requested again', async () => {
  const { post, stateOf } = await startInbox();
  await post('stripe', active('evt_2', now));
  const late = unpaid('evt_1', now - MINUTE);
  expect(await post('stripe', late)).toMatchObject({ kind: 'ignored', why: 'stale' });
  expect(await post('stripe', late)).toMatchObject({ kind: 'ignored', why: 'duplicate' });
  expect(stateOf('acme')).toBe('active');
});

test('a time ahead of ours does not make later events look old', async () => {
  const { post } = await startInbox();
  await post('stripe', unpaid('evt_1', now + 365 * 86_400_000));
  now += MINUTE;
  expect(await post('stripe', active('evt_2'))).toMatchObject({ state: 'active' });
});

describe('ENFORCEMENT_RULES', () => {
  test('override what a type means', async () => {
    const rules = 'alerts.spend_threshold_reached=suspended';
    const { post } = await startInbox({ ENFORCEMENT_RULES: rules });
    const spend = {
      id: 'm1',
      type: 'alerts.spend_threshold_reached',
      properties: { customer_id: 'uuid-1', alert_id: 'a1' },
    };
    const resolved = { ...spend, id: 'm2', type: 'alerts.spend_threshold_resolved' };
    expect(await post('metronome', metronomeMessage(spend, now))).toMatchObject({
      state: 'suspended',
    });
    now += 1000;
    expect(await post('metronome', metronomeMessage(resolved, now))).toMatchObject({
      state: 'active',
    });
  });

  test('give a state to types that have none, and `active` lifts what the system reported', async () => {
    const overdue = stripeMessage(
      {
        id: 'evt_1',
        type: 'invoice.overdue',
        at: now,
        object: { object: 'invoice', id: 'in_1', customer: 'cus_1' },
      },
      now,
    );
    const without = await startInbox();
    expect(await without.post('stripe', overdue)).toMatchObject({ why: 'irrelevant' });
    const rules = 'invoice.overdue=suspended,charge.succeeded=active';
    const { post } = await startInbox({ ENFORCEMENT_RULES: rules });
    expect(await post('stripe', overdue)).toMatchObject({ state: 'suspended' });
    const object = { object: 'charge', id: 'ch_1', customer: 'cus_1' };
    const charge = { id: 'evt_2', type: 'charge.succeeded', at: now + 1000, object };
    now += 1000;
    expect(await post('stripe', stripeMessage(charge, now))).toMatchObject({ state: 'active' });
  });
});

describe('whose a customer is', () => {
  test('the tenant is unknown before the first discovery: the event is to be sent again', async () => {
    tenants = [];
    const { post } = await startInbox({}, false);
    expect(await post('stripe', unpaid('evt_1'))).toMatchObject({ kind: 'unavailable' });
    tenants = [ACME];
    const later = await startInbox();
    expect(await later.post('stripe', unpaid('evt_1'))).toMatchObject({ kind: 'applied' });
  });

  test('nobody’s: nothing is recorded and nothing is requested again', async () => {
    tenants = [];
    const { post } = await startInbox();
    const unknown = { kind: 'ignored', why: 'unknown-customer' };
    expect(await post('stripe', unpaid('evt_1'))).toMatchObject(unknown);
    expect(await post('lago', lagoAlert('k1', 'somebody'))).toMatchObject(unknown);
    expect(requested).toStrictEqual(['stripe cus_1']);
    const keys = [];
    for await (const [key] of ledger.records('enforcement/')) keys.push(key);
    expect(keys).toStrictEqual([]);
  });

  test('named by the metadata of two tenants: it concerns neither', async () => {
    tenants = [ACME, tenant('b', { customerIds: { stripe: 'cus_1' } })];
    const { post, stateOf } = await startInbox();
    expect(await post('stripe', unpaid('evt_1'))).toMatchObject({ why: 'unknown-customer' });
    expect([stateOf('acme'), stateOf('b')]).toStrictEqual([undefined, undefined]);
    // What the billing system itself knows of the customer still counts.
    queryCustomer = async () => ({ kind: 'tenants', tenants: ['acme'], certain: true });
    expect(await post('stripe', unpaid('evt_2'))).toMatchObject({ tenants: ['acme'] });
  });

  test('pinned by a thief: the alert about Alice suspends the thief’s choice and lets Alice go', async () => {
    tenants = [tenant('alice'), tenant('thief', { customerIds: { stripe: 'cus_alice' } })];
    const { post, stateOf } = await startInbox();
    const object = {
      object: 'subscription',
      id: 'sub_1',
      customer: 'cus_alice',
      status: 'unpaid',
      metadata: { vbilling_tenant_id: 'alice' },
    };
    const event = { id: 'evt_1', type: 'customer.subscription.updated', at: now, object };
    expect(await post('stripe', stripeMessage(event, now))).toMatchObject({ tenants: ['alice'] });
    expect([stateOf('alice'), stateOf('thief')]).toStrictEqual(['suspended', undefined]);
  });

  test('the billing system is queried once, and the answer survives a restart', async () => {
    tenants = [tenant('acme')];
    queryCustomer = async () => ({ kind: 'tenants', tenants: ['acme'], certain: true });
    const first = await startInbox();
    expect(await first.post('stripe', unpaid('evt_1'))).toMatchObject({ tenants: ['acme'] });
    const second = await startInbox();
    now += 1000;
    expect(await second.post('stripe', active('evt_2'))).toMatchObject({ tenants: ['acme'] });
    expect(requested).toStrictEqual(['stripe cus_1']);
  });

  test('of names that others may have put there, only those of tenants here count', async () => {
    tenants = [tenant('acme'), tenant('b')];
    queryCustomer = async () => ({ kind: 'tenants', tenants: ['acme', 'x', 'b'], certain: false });
    const { post, stateOf } = await startInbox();
    const spend = {
      id: 'm1',
      type: 'alerts.spend_threshold_reached',
      properties: { customer_id: 'uuid-9', alert_id: 'a1' },
    };
    expect(await post('metronome', metronomeMessage(spend, now))).toMatchObject({
      tenants: ['acme', 'b'],
    });
    expect(stateOf('x')).toBeUndefined();
    queryCustomer = async () => ({ kind: 'tenants', tenants: ['x'], certain: false });
    const other = { ...spend, id: 'm2', properties: { customer_id: 'uuid-10' } };
    expect(await post('metronome', metronomeMessage(other, now))).toMatchObject({
      why: 'unknown-customer',
    });
  });

  test('while the billing system does not answer, the event is to be sent again', async () => {
    tenants = [tenant('acme')];
    queryCustomer = async () => ({ kind: 'failed', reason: 'timeout' });
    const { post } = await startInbox();
    expect(await post('stripe', unpaid('evt_1'))).toStrictEqual({
      kind: 'unavailable',
      reason: 'timeout',
    });
  });

  test('what the operator itself wrote at the billing system counts for a tenant that is away', async () => {
    tenants = [];
    const { post, stateOf } = await startInbox();
    const ours = lagoAlert('k1', 'gone', { external_subscription_id: 'sub-gone' });
    expect(await post('lago', ours)).toMatchObject({ tenants: ['gone'] });
    const object = {
      object: 'subscription',
      id: 'sub_9',
      customer: 'cus_9',
      status: 'unpaid',
      metadata: { vbilling_tenant_id: 'gone-too' },
    };
    const event = { id: 'evt_1', type: 'customer.subscription.updated', at: now, object };
    expect(await post('stripe', stripeMessage(event, now))).toMatchObject({ state: 'suspended' });
    expect(stateOf('gone-too')).toBe('suspended');
    const invoice = { object: 'invoice', id: 'in_1', customer: 'cus_9', subscription: 'sub_9' };
    const paid = { id: 'evt_2', type: 'invoice.paid', at: now + 1000, object: invoice };
    now += 1000;
    expect(await post('stripe', stripeMessage(paid, now))).toMatchObject({
      tenants: ['gone-too'],
      state: 'active',
    });
  });
});

describe('a report of usage that is not billed', () => {
  const errors = (key: string, found: object) =>
    lagoMessage(key, 'events.errors', 'events_errors', {
      invalid_code: [],
      missing_aggregation_property: null,
      missing_group_key: null,
      invalid_filter_values: [],
      ...found,
    });
  const ids = ['svc1_a', 'svc1_b'];

  test('is handed on once, by reason, whoever it is of and before any tenant is known', async () => {
    const { post, reports } = await startInbox({}, false);
    const found = { invalid_code: ids, missing_aggregation_property: ['svc1_c'] };
    const message = errors('k1', found);
    expect(await post('lago', message)).toStrictEqual({
      kind: 'reported',
      reason: '3 events are not billed',
    });
    expect(reports).toStrictEqual([
      {
        provider: 'lago',
        refusals: [
          {
            at: START,
            events: 2,
            reason: 'invalid_code: no billable metric has their code',
            example: 'svc1_a',
          },
          {
            at: START,
            events: 1,
            reason:
              'missing_aggregation_property: the property that their billable metric sums is missing or no number',
            example: 'svc1_c',
          },
        ],
      },
    ]);
    // Also by another process, and under another id.
    const later = await startInbox();
    for (const again of [message, errors('k2', found)]) {
      expect(await later.post('lago', again)).toMatchObject({ why: 'duplicate' });
    }
    expect(later.reports).toStrictEqual([]);
  });

  test('is to be sent again where it cannot be written', async () => {
    const full = { kind: 'failed', cause: 'full', message: 'no room' } as const;
    ledger = { ...ledger, writeRecords: async () => full };
    const { post, reports } = await startInbox();
    expect(await post('lago', errors('k1', { invalid_code: ids }))).toStrictEqual({
      kind: 'unavailable',
      reason: 'no room',
    });
    expect(reports).toStrictEqual([]);
  });

  test('says nothing of events that are billed, whatever filter values they have', async () => {
    const { post, reports } = await startInbox();
    const message = errors('k1', { invalid_filter_values: ids });
    expect(await post('lago', message)).toMatchObject({ why: 'irrelevant' });
    expect(reports).toStrictEqual([]);
  });

  test('shows ids of others without their control characters', async () => {
    const { post, reports } = await startInbox();
    await post('lago', errors('k1', { invalid_code: ['a\u001b[2J\nb'] }));
    expect(reports).toMatchObject([{ refusals: [{ example: 'a [2J b' }] }]);
  });
});

function iso(at: number): string {
  return new Date(at).toISOString();
}

function tenant(id: string, more: Partial<Tenant> = {}): Tenant {
  return { id, displayName: id, region: 'r', clusters: [id], createdAt: START, ...more };
}

function settings(environment: Readonly<Record<string, string>>): EnforcementSettings {
  const loaded = loadEnvironment({ ...WEBHOOK_SECRETS, ...environment }, DESTINATIONS);
  if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded.problems));
  return loaded.settings.enforcement;
}

describe('a message that Lago signs with its own key', () => {
  const body = JSON.stringify({
    webhook_type: 'invoice.payment_overdue',
    object_type: 'invoice',
    organization_id: 'org',
    invoice: { lago_id: 'i1', customer: { external_id: 'acme' } },
  });
  const signed = (keys: LagoKeys, id = 'k1'): SignedMessage => {
    const message = { id, type: 'invoice.payment_overdue', at: now, payload: {} };
    const issuer = 'https://lago.example.com';
    return { headers: lagoHeaders({ algorithm: 'jwt' }, keys, issuer, body, message), body };
  };
  let keys: LagoKeys;
  let fetched: number;

  beforeEach(() => {
    keys = createLagoKeys();
    fetched = 0;
    queryKeys = async () => {
      fetched += 1;
      return { kind: 'keys', keys: [Buffer.from(keys.publicKey(), 'base64').toString()] };
    };
  });

  test('is accepted without any shared secret, and the key is fetched once', async () => {
    const { post, stateOf } = await startInbox();
    expect(await post('lago', signed(keys))).toMatchObject({ kind: 'applied' });
    expect(stateOf('acme')).toBe('delinquent');
    expect(await post('lago', signed(keys, 'k2'))).toMatchObject({ why: 'duplicate' });
    expect(fetched).toBe(1);
  });

  test('is taken in after Lago has changed its key', async () => {
    const { post } = await startInbox();
    await post('lago', signed(keys));
    now += MINUTE;
    keys.rotate();
    expect(await post('lago', { ...signed(keys, 'k2') })).toMatchObject({ why: 'duplicate' });
    expect(fetched).toBe(2);
  });

  test('of a forger is refused, and queries Lago no more than once a minute', async () => {
    const { post, stateOf } = await startInbox();
    const forged = signed(createLagoKeys());
    for (let attempt = 0; attempt < 10; attempt += 1) {
      expect(await post('lago', forged)).toStrictEqual({ kind: 'refused' });
    }
    expect(fetched).toBe(1);
    expect(stateOf('acme')).toBeUndefined();
  });

  test('is to be sent again while the key cannot be had', async () => {
    queryKeys = async () => ({ kind: 'failed', reason: 'connection refused' });
    const { post } = await startInbox();
    expect(await post('lago', signed(keys))).toStrictEqual({
      kind: 'unavailable',
      reason: 'the public key cannot be fetched: connection refused',
    });
  });

  test('and is replayed after months does nothing', async () => {
    const { post, seen } = await startInbox();
    await post('lago', signed(keys));
    now += REMEMBER_MS + DAY;
    await seen.prune(now, SECRETS);
    expect(await (await startInbox()).post('lago', signed(keys, 'k9'))).toMatchObject({
      why: 'duplicate',
    });
  });
});

test('an invoice that is voided is no delinquency any more', async () => {
  const { post, stateOf } = await startInbox();
  const invoice = { lago_id: 'i1', customer: { external_id: 'acme' } };
  await post('lago', lagoMessage('k1', 'invoice.payment_overdue', 'invoice', invoice));
  expect(stateOf('acme')).toBe('delinquent');
  const voided = { ...invoice, voided_at: new Date(now).toISOString() };
  await post('lago', lagoMessage('k2', 'invoice.voided', 'invoice', voided));
  expect(stateOf('acme')).toBe('active');
});

describe('a customer at Lago is called like its tenant', () => {
  const overdue = (customer: string) =>
    lagoMessage('k1', 'invoice.payment_overdue', 'invoice', {
      lago_id: 'i1',
      customer: { external_id: customer },
    });

  test('unless the tenant names another one', async () => {
    tenants = [tenant('acme', { customerIds: { lago: 'acme-ltd' } })];
    const { post, stateOf } = await startInbox();
    await post('lago', overdue('acme-ltd'));
    expect(stateOf('acme')).toBe('delinquent');
  });

  test('and nobody takes the debts of a tenant by naming it', async () => {
    tenants = [ACME, tenant('thief', { customerIds: { lago: 'acme' } })];
    const { post, stateOf } = await startInbox();
    await post('lago', overdue('acme'));
    expect([stateOf('acme'), stateOf('thief')]).toStrictEqual(['delinquent', undefined]);
  });
});
