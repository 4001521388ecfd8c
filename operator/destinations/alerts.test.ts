import { describe, expect, test } from 'vitest';
import { lagoAlerts } from './lago/alerts.ts';
import { metronomeAlerts } from './metronome/alerts.ts';
import { stripeAlerts } from './stripe/alerts.ts';

const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));
const parseStripeAlert = (body: Buffer) => stripeAlerts.parse({ body, header: () => undefined });
const parseMetronomeAlert = (body: Buffer) =>
  metronomeAlerts.parse({ body, header: () => undefined });
const parseLagoAlert = (body: Buffer, uniqueKey: string) =>
  lagoAlerts.parse({ body, header: () => uniqueKey });

const stripe = (type: string, object: object) => {
  const event = { id: 'evt_1', object: 'event', created: 1_700_000_000, type, data: { object } };
  return parseStripeAlert(bytes(event));
};
const metronome = (type: string, properties: object) =>
  parseMetronomeAlert(
    bytes({ id: 'm1', type, properties: { customer_id: 'uuid', ...properties } }),
  );
const lago = (type: string, objectType: string, object: object) =>
  parseLagoAlert(
    bytes({ webhook_type: type, object_type: objectType, [objectType]: object }),
    'key-1',
  );

describe('Stripe', () => {
  const subscription = (status: string) => ({
    object: 'subscription',
    id: 'sub_1',
    customer: 'cus_1',
    status,
  });

  test.each([
    ['customer.subscription.created', 'active', 'active'],
    ['customer.subscription.updated', 'trialing', 'active'],
    ['customer.subscription.resumed', 'active', 'active'],
    ['customer.subscription.updated', 'past_due', 'delinquent'],
    ['customer.subscription.updated', 'unpaid', 'suspended'],
    ['customer.subscription.updated', 'canceled', 'suspended'],
    ['customer.subscription.updated', 'incomplete_expired', 'suspended'],
    ['customer.subscription.deleted', 'active', 'suspended'],
    ['customer.subscription.updated', 'incomplete', undefined],
  ])('%s with status %s is %s', (type, status, state) => {
    const parsed = stripe(type, subscription(status));
    expect(parsed).toMatchObject({
      kind: 'alert',
      alert: { at: 1_700_000_000_000, customer: { id: 'cus_1' }, subject: 'subscription/sub_1' },
    });
    expect(parsed.kind === 'alert' && parsed.alert.state).toBe(state);
  });

  test.each([
    ['the form of today', { parent: { subscription_details: { subscription: 'sub_1' } } }],
    ['the form of old', { subscription: 'sub_1' }],
    ['an expanded subscription', { subscription: { id: 'sub_1', object: 'subscription' } }],
  ])('an invoice speaks of its subscription, in %s', (_, reference) => {
    const invoice = { object: 'invoice', id: 'in_1', customer: { id: 'cus_1' }, ...reference };
    expect(stripe('invoice.payment_failed', invoice)).toMatchObject({
      alert: { subject: 'subscription/sub_1', state: 'delinquent', customer: { id: 'cus_1' } },
    });
    expect(stripe('invoice.paid', invoice)).toMatchObject({
      alert: { subject: 'subscription/sub_1', state: 'active', settles: 'alerts' },
    });
  });

  test('an invoice without a subscription speaks of itself, and of the customer where it has no id', () => {
    const invoice = { object: 'invoice', id: 'in_9', customer: 'cus_1' };
    expect(stripe('invoice.payment_succeeded', invoice)).toMatchObject({
      alert: { subject: 'invoice/in_9', state: 'active', settles: 'alerts' },
    });
    expect(stripe('invoice.paid', { customer: 'cus_1' })).toMatchObject({
      alert: { subject: 'customer', state: 'active', settles: 'all' },
    });
  });

  test('the tenant that was written on a subscription is found on it and on its invoices', () => {
    const metadata = { vbilling_tenant_id: 'acme' };
    const expected = { alert: { customer: { id: 'cus_1', tenant: 'acme', certain: true } } };
    const object = { ...subscription('active'), metadata };
    expect(stripe('customer.subscription.updated', object)).toMatchObject(expected);
    const parent = { subscription_details: { subscription: 'sub_1', metadata } };
    const invoice = { object: 'invoice', id: 'in_1', customer: 'cus_1', parent };
    expect(stripe('invoice.paid', invoice)).toMatchObject(expected);
  });

  test('a billing alert is a warning about itself', () => {
    const object = {
      object: 'billing.alert_triggered',
      customer: 'cus_1',
      alert: { id: 'alrt_1', title: 'GPU\nhours' },
    };
    expect(stripe('billing.alert.triggered', object)).toMatchObject({
      alert: { subject: 'alert/alrt_1', state: 'warning', reason: 'GPU hours' },
    });
  });

  test('a type without a meaning has no state, and one without a customer is irrelevant', () => {
    const charge = { object: 'charge', id: 'ch_1', customer: 'cus_1' };
    const parsed = stripe('charge.failed', charge);
    expect(parsed).toMatchObject({ alert: { subject: 'charge/ch_1' } });
    expect(parsed.kind === 'alert' && 'state' in parsed.alert).toBe(false);
    expect(stripe('price.created', { object: 'price', id: 'p' })).toStrictEqual({
      kind: 'irrelevant',
      reason: 'price.created names no customer',
    });
  });

  test.each([
    '',
    '[]',
    'null',
    '{"id":"evt_1"}',
    '{"id":7,"type":"invoice.paid"}',
    '{"id":"a\\u0000b","type":"invoice.paid"}',
  ])('%j is no event', (text) => {
    expect(parseStripeAlert(Buffer.from(text)).kind).toBe('malformed');
  });
});

describe('Metronome', () => {
  test('an alert is a warning about itself, and its resolution ends it', () => {
    const alert = { alert_id: 'a1', alert_name: 'Spend', timestamp: '2026-11-21T09:00:00Z' };
    expect(metronome('alerts.spend_threshold_reached', alert)).toMatchObject({
      alert: {
        id: 'm1',
        at: Date.parse('2026-11-21T09:00:00Z'),
        customer: { id: 'uuid' },
        subject: 'alert/a1',
        state: 'warning',
        reason: 'Spend',
      },
    });
    expect(metronome('alerts.spend_threshold_resolved', alert)).toMatchObject({
      alert: { subject: 'alert/a1', state: 'active' },
    });
  });

  test('a resolution without the id of its alert ends the alert of its type', () => {
    const subjectOf = (type: string) => {
      const parsed = metronome(type, {});
      return parsed.kind === 'alert' ? parsed.alert.subject : parsed.kind;
    };
    const reached = subjectOf('alerts.usage_threshold_reached');
    expect(subjectOf('alerts.usage_threshold_resolved')).toBe(reached);
  });

  test('both names of the low balance alert are alerts', () => {
    for (const name of ['low_credit_balance_reached', 'low_remaining_credit_balance_reached']) {
      expect(metronome(`alerts.${name}`, {})).toMatchObject({ alert: { state: 'warning' } });
    }
  });

  test('payments make delinquent and active, what is pending neither', () => {
    const payment = (payment_status: string) =>
      metronome('payment_gate.payment_status', { invoice_id: 'i1', payment_status });
    expect(payment('failed')).toMatchObject({
      alert: { subject: 'payment/i1', state: 'delinquent' },
    });
    expect(payment('paid')).toMatchObject({
      alert: { subject: 'payment/i1', state: 'active', settles: 'alerts' },
    });
    const pending = payment('pending');
    expect(pending.kind === 'alert' && 'state' in pending.alert).toBe(false);
  });

  test('a flat notification is read as well as one with properties', () => {
    const flat = { id: 'm2', type: 'contract.end', customer_id: 'uuid', timestamp: '2026-11-21' };
    expect(parseMetronomeAlert(bytes(flat))).toMatchObject({
      alert: {
        customer: { id: 'uuid' },
        at: Date.parse('2026-11-21'),
        subject: 'event/contract.end',
      },
    });
    expect(parseMetronomeAlert(bytes({ id: 'm2', type: 'x' })).kind).toBe('irrelevant');
    expect(parseMetronomeAlert(bytes({ type: 'x' })).kind).toBe('malformed');
  });
});

describe('Lago', () => {
  test('an alert names its tenant, and the subscription proves that it is ours', () => {
    const alert = {
      lago_alert_id: 'a1',
      alert_code: 'gpu',
      external_customer_id: 'acme',
      external_subscription_id: 'sub-acme',
      triggered_at: '2026-11-21T09:00:00Z',
    };
    expect(lago('alert.triggered', 'triggered_alert', alert)).toMatchObject({
      alert: {
        id: 'key-1',
        at: Date.parse('2026-11-21T09:00:00Z'),
        customer: { tenant: 'acme', certain: true },
        subject: 'alert/a1',
        state: 'warning',
        reason: 'gpu',
      },
    });
    const foreign = { ...alert, external_subscription_id: 'another-product' };
    const parsed = lago('alert.triggered', 'triggered_alert', foreign);
    expect(parsed.kind === 'alert' && parsed.alert.customer).toStrictEqual({
      tenant: 'acme',
      id: 'acme',
    });
  });

  test('failed and overdue payments of an invoice are of one subject with its payment', () => {
    const invoice = { lago_id: 'i1', customer: { external_id: 'acme' } };
    const error = { lago_invoice_id: 'i1', external_customer_id: 'acme' };
    const of = { customer: { tenant: 'acme' }, subject: 'invoice/i1' };
    const delinquent = { alert: { ...of, state: 'delinquent' } };
    expect(lago('invoice.payment_overdue', 'invoice', invoice)).toMatchObject(delinquent);
    const objectType = 'payment_provider_invoice_payment_error';
    expect(lago('invoice.payment_failure', objectType, error)).toMatchObject(delinquent);
    const updated = 'invoice.payment_status_updated';
    expect(lago(updated, 'invoice', { ...invoice, payment_status: 'succeeded' })).toMatchObject({
      alert: { ...of, state: 'active', settles: 'alerts' },
    });
    const failed = { ...invoice, payment_status: 'failed' };
    expect(lago(updated, 'invoice', failed)).toMatchObject(delinquent);
    const pending = lago(updated, 'invoice', { ...invoice, payment_status: 'pending' });
    expect(pending.kind === 'alert' && 'state' in pending.alert).toBe(false);
  });

  test('a dunning campaign that has come to its end suspends until its request is paid', () => {
    const campaign = { external_customer_id: 'acme', dunning_campaign_code: 'std' };
    expect(lago('dunning_campaign.finished', 'dunning_campaign', campaign)).toMatchObject({
      alert: { state: 'suspended', subject: 'dunning' },
    });
    const request = { customer: { external_id: 'acme' }, payment_status: 'succeeded' };
    const type = 'payment_request.payment_status_updated';
    expect(lago(type, 'payment_request', request)).toMatchObject({
      alert: { state: 'active', subject: 'dunning', settles: 'all' },
    });
  });

  test.each([
    ['subscription.usage_threshold_reached', 'subscription', 'warning'],
    ['wallet.depleted_ongoing_balance', 'wallet', 'warning'],
    ['subscription.terminated', 'subscription', undefined],
  ])('%s is %s', (type, objectType, state) => {
    const object = { external_id: 'sub-acme', external_customer_id: 'acme', lago_id: 'x' };
    const parsed = lago(type, objectType, object);
    expect(parsed.kind === 'alert' && parsed.alert.state).toBe(state);
  });

  test('what names nobody is irrelevant, and what is no webhook is malformed', () => {
    expect(lago('events.errors', 'events_errors', {}).kind).toBe('irrelevant');
    expect(parseLagoAlert(bytes({ webhook_type: 'x' }), 'k').kind).toBe('malformed');
  });
});
