import * as fc from 'fast-check';
import { Stripe } from 'stripe';
import { expect, test } from 'vitest';
import { expectAccountedFor } from '../testing/accounted.ts';
import { summary, time } from '../vectors.ts';
import { accountOf } from './account.ts';
import { createCustomer } from './customers.ts';
import { runUntil } from './cycles.ts';
import { createMeterEvent } from './meter-events.ts';
import { createMeter } from './meters.ts';
import { nextBoundary } from '../boundaries.ts';
import { anchorOf } from './periods.ts';
import { createPrice } from './prices.ts';
import { createStripeState, type StripeRules, type StripeState } from './state.ts';
import { startFakeStripe } from './stripe.ts';
import { createSubscription } from './subscription-creation.ts';
import { cancelSubscription, updateSubscription } from './subscriptions.ts';

const START = time('01T00');
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

interface Estate {
  readonly state: StripeState;
  readonly customer: string;
  readonly prices: readonly string[];
}

/**
 * Returns a customer, a meter and its three prices, without HTTP: the engine takes the time as an
 * argument.
 */
function estate(rules: Partial<StripeRules> = {}): Estate {
  const state = createStripeState(rules);
  createMeter(
    state,
    { display_name: 'g', event_name: 'g', default_aggregation: { formula: 'sum' } },
    START,
  );
  createCustomer(state, { name: 'Acme' }, START);
  const [meter = ''] = state.meters.keys();
  for (const unit_amount_decimal of ['200', '300', '0.5']) {
    const recurring = { interval: 'month', usage_type: 'metered', meter };
    const form = { currency: 'usd', product_data: { name: 'G' }, unit_amount_decimal, recurring };
    createPrice(state, form, START);
  }
  const [customer = ''] = state.customers.keys();
  return { state, customer, prices: [...state.prices.keys()] };
}

function subscribe({ state, customer, prices }: Estate, price: number, at: number, from?: number) {
  const form = {
    customer,
    items: { '0': { price: prices[price] ?? '' } },
    ...(from !== undefined && { backdate_start_date: String(from / 1000) }),
  };
  return createSubscription(state, form, at);
}

function send({ state, customer }: Estate, stamp: number, at: number, value: string) {
  const form = {
    event_name: 'g',
    identifier: String(state.events.length),
    timestamp: String(stamp / 1000),
    payload: { stripe_customer_id: customer, value },
  };
  return createMeterEvent(state, form, at, () => false);
}

function running({ state }: Estate) {
  return [...state.subscriptions.values()].find(({ status }) => status === 'active');
}

test('a month without the anchor’s day has its boundary on its last day', () => {
  const day = (text: string): number => Date.parse(`${text}T10:00:00Z`) / 1000;
  const anchor = day('2027-01-31');
  expect(nextBoundary(anchor, 'month', anchor)).toBe(day('2027-02-28'));
  expect(nextBoundary(anchor, 'month', day('2027-02-28'))).toBe(day('2027-03-31'));
  expect(nextBoundary(anchor, 'month', day('2028-02-15'))).toBe(day('2028-02-29'));
  expect(nextBoundary(day('2024-02-29'), 'year', day('2026-02-28'))).toBe(day('2027-02-28'));
  expect(nextBoundary(anchor, 'week', day('2027-02-01'))).toBe(day('2027-02-07'));
  const config = { day: 31, hour: 10, minute: 0, second: 0 };
  expect(anchorOf(config, day('2027-02-01'))).toBe(day('2027-02-28'));
  expect(anchorOf(config, day('2027-01-31'))).toBe(day('2027-02-28'));
});

test.each([
  ['keep_as_draft', 'draft Jan 2'],
  ['void', 'draft Jan 2, never 1'],
  ['mark_uncollectible', 'Jan 2'],
])('while collection is paused with %s the status says active', (behavior, reported) => {
  const one = estate();
  subscribe(one, 0, START);
  const id = running(one)?.id ?? '';
  updateSubscription(one.state, id, { pause_collection: { behavior } }, START + MINUTE_MS);
  send(one, time('05T00'), time('05T00:01'), '1');
  runUntil(one.state, time('Feb 02T00') / 1000);
  expect(running(one)?.status).toBe('active');
  expect(summary(accountOf(one.state)).replace(', open 1', '')).toContain(reported);
});

test.each([
  ['unpaid', 'Jan 2, never 1'],
  ['paused', 'never 2'],
] as const)(
  'a subscription that is %s has no draft at the end of its period',
  (status, reported) => {
    const one = estate();
    subscribe(one, 0, START);
    const subscription = running(one);
    if (subscription === undefined) throw new Error('no subscription');
    subscription.status = status;
    send(one, time('05T00'), time('05T00:01'), '1');
    runUntil(one.state, time('Feb 01T00') / 1000);
    send(one, time('06T00'), time('Feb 01T00:30'), '1');
    runUntil(one.state, time('Feb 02T00') / 1000);
    expect(summary(accountOf(one.state))).toBe(reported);
  },
);

test('two running subscriptions of one customer have one currency', () => {
  const one = estate();
  const recurring = { interval: 'month', usage_type: 'licensed' };
  const form = { currency: 'eur', product_data: { name: 'E' }, unit_amount: '1', recurring };
  createPrice(one.state, form, START);
  const prices = [...one.state.prices.keys()];
  expect(subscribe(one, 0, START).status).toBe(200);
  expect(subscribe({ ...one, prices }, 3, START).status).toBe(400);
});

test('a total below zero bills nothing', () => {
  const one = estate();
  subscribe(one, 0, START);
  send(one, time('05T00'), time('05T00:01'), '1');
  send(one, time('05T00'), time('05T00:01'), '-3');
  runUntil(one.state, time('Feb 02T00') / 1000);
  expect(summary(accountOf(one.state))).toBe('');
  expect(accountOf(one.state).invoices[0]?.lines).toMatchObject([{ units: '0', amount: '0' }]);
});

test('the vendor’s own SDK reads drafts, previews, lines and credits', async () => {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key' });
  try {
    const { hostname, port } = new URL(stripe.url);
    const client = new Stripe('sk_test_key', {
      host: hostname,
      port: Number(port),
      protocol: 'http',
      maxNetworkRetries: 0,
      telemetry: false,
    });
    stripe.turnTo(START);
    const meter = await client.billing.meters.create({
      display_name: 'g',
      event_name: 'g',
      default_aggregation: { formula: 'sum' },
    });
    const customer = await client.customers.create({ name: 'Acme' });
    const price = await client.prices.create({
      currency: 'usd',
      product_data: { name: 'G' },
      unit_amount_decimal: Stripe.Decimal.from('12.5'),
      recurring: { interval: 'month', usage_type: 'metered', meter: meter.id },
    });
    const { id, billing_mode } = await client.subscriptions.create({
      customer: customer.id,
      items: [{ price: price.id }],
    });
    expect(billing_mode.type).toBe('flexible');
    const use = (identifier: string, timestamp: number, value: string) =>
      client.billing.meterEvents.create({
        event_name: 'g',
        identifier,
        timestamp: timestamp / 1000,
        payload: { stripe_customer_id: customer.id, value },
      });
    stripe.turnTo(time('05T00:01'));
    await use('1', time('05T00'), '1.2');
    await use('2', time('05T00'), '7');
    await client.billing.meterEventAdjustments.create({
      event_name: 'g',
      type: 'cancel',
      cancel: { identifier: '2' },
    });
    const preview = await client.invoices.createPreview({ subscription: id });
    expect(preview).toMatchObject({
      total: 15,
      lines: { data: [{ quantity_decimal: Stripe.Decimal.from('1.2') }] },
    });
    await client.invoiceItems.create({
      customer: customer.id,
      currency: 'usd',
      amount: 500,
      description: 'late usage of December',
    });
    stripe.turnTo(time('Feb 01T00:10'));
    const drafts = await client.invoices.list({ customer: customer.id });
    expect(drafts.data).toMatchObject([{ status: 'draft', total: 515 }]);
    stripe.turnTo(time('Feb 01T01'));
    const [invoice] = (await client.invoices.list({ subscription: id })).data;
    expect(invoice).toMatchObject({ status: 'open', amount_due: 515 });
    const lines = await client.invoices.listLineItems(invoice?.id ?? '');
    expect(lines.data.map(({ amount }) => amount)).toStrictEqual([500, 15]);
    const of = { invoice: invoice?.id ?? '' };
    await client.creditNotes.create({ ...of, amount: 15 });
    expect(await client.invoices.retrieve(of.invoice)).toMatchObject({ amount_due: 500 });
    await client.invoices.pay(of.invoice);
    const credit = (amount: number, more: Stripe.CreditNoteCreateParams) =>
      client.creditNotes.create({
        lines: [{ type: 'invoice_line_item', invoice_line_item: lines.data[0]?.id ?? '', amount }],
        metadata: { late: '1' },
        ...more,
      });
    await expect(credit(20, of)).rejects.toThrow('must equal the post payment amount (20)');
    await expect(credit(501, { ...of, credit_amount: 501 })).rejects.toThrow('line amount');
    await credit(20, { ...of, credit_amount: 20 });
    expect((await client.creditNotes.list(of)).data).toMatchObject([
      { amount: 20, post_payment_amount: 20, metadata: { late: '1' } },
      { amount: 15, pre_payment_amount: 15 },
    ]);
    const late = { customer: customer.id, currency: 'usd', amount: -7, metadata: { late: '2' } };
    await expect(client.invoiceItems.create({ ...late, amount: 1.5 })).rejects.toThrow('integer');
    await client.invoiceItems.create(late);
    const waiting = await client.invoiceItems.list({ customer: customer.id, pending: true });
    expect(waiting.data).toMatchObject([{ amount: -7, metadata: { late: '2' } }]);
    const schedule = await client.subscriptionSchedules.create({ from_subscription: id });
    expect(schedule.phases).toHaveLength(1);
    await client.subscriptionSchedules.release(schedule.id);
    const items = await client.subscriptionItems.list({ subscription: id });
    expect(items.data[0]).toMatchObject({
      current_period_start: time('Feb 01T00') / 1000,
      current_period_end: time('Mar 01T00') / 1000,
    });
  } finally {
    await stripe.close();
  }
});

type Act =
  | { readonly kind: 'usage'; readonly late: number; readonly value: string }
  | { readonly kind: 'swap'; readonly price: number; readonly fields: Record<string, string> }
  | { readonly kind: 'cancel'; readonly fields: Record<string, string> }
  | { readonly kind: 'subscribe' | 'end' | 'stay' };

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('usage' as const),
      late: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 34 * 24 * 60 })),
      value: fc.constantFrom('1', '0.25', '0.000000001', '7'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('swap' as const),
      price: fc.integer({ min: 0, max: 2 }),
      fields: fc.constantFrom<Record<string, string>>(
        {},
        { proration_behavior: 'none' },
        { proration_behavior: 'always_invoice' },
        { billing_cycle_anchor: 'now' },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('cancel' as const),
      fields: fc.constantFrom<Record<string, string>>({}, { invoice_now: 'true' }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('subscribe' as const, 'end' as const, 'stay' as const),
    }),
  },
);

function perform(one: Estate, what: Act, at: number): void {
  runUntil(one.state, at / 1000);
  const subscription = running(one);
  if (what.kind === 'usage') send(one, at - what.late * MINUTE_MS, at, what.value);
  else if (subscription === undefined) {
    if (what.kind === 'subscribe') subscribe(one, 0, at);
  } else if (what.kind === 'swap') {
    const [item] = subscription.items.filter(({ to }) => to === undefined);
    const items = { '0': { id: item?.id ?? '', price: one.prices[what.price] ?? '' } };
    updateSubscription(one.state, subscription.id, { items, ...what.fields }, at);
  } else if (what.kind === 'cancel') {
    cancelSubscription(one.state, subscription.id, what.fields, at);
  } else if (what.kind !== 'subscribe') {
    const form = { cancel_at_period_end: String(what.kind === 'end') };
    updateSubscription(one.state, subscription.id, form, at);
  }
}

test.each([
  { mode: 'flexible' },
  { mode: 'classic' },
  { mode: 'flexible', finalInvoiceHasGrace: false, graceSeconds: 72 * 3_600 },
] as const)(
  'with %j every accepted event is on one line, or is reported to be on none',
  (rules) => {
    const script = fc.array(fc.tuple(fc.integer({ min: 0, max: 75 * 24 * 60 }), act), {
      minLength: 1,
      maxLength: 40,
    });
    fc.assert(
      fc.property(script, (acts) => {
        const one = estate(rules);
        subscribe(one, 0, START);
        for (const [minute, what] of acts.toSorted(([a], [b]) => a - b)) {
          perform(one, what, START + minute * MINUTE_MS);
        }
        const end = START + 80 * DAY_MS;
        runUntil(one.state, end / 1000);
        const last = running(one);
        if (last !== undefined)
          cancelSubscription(one.state, last.id, { invoice_now: 'true' }, end);
        runUntil(one.state, end / 1000 + 10 * 86_400);
        const account = accountOf(one.state);
        expectAccountedFor(account);
      }),
      { numRuns: 100 },
    );
  },
);
