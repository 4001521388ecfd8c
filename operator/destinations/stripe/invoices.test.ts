import { afterEach, describe, expect, test } from 'vitest';
import type { StripeRules } from '../../../e2e/fakes/stripe/state.ts';
import { testTenant } from '../testing/context.ts';
import { createLife, G, H, type StripeLife } from './testing/life.ts';
import { NEVER, settle } from './testing/stripe-world.ts';
import type { StripeSettings } from './settings.ts';

let open: StripeLife | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

const SILVER = 'tenant-standard';
const GRACE = 72 * 3_600;

/** Readings of open points in Stripe's documentation, in both billing modes. */
const READINGS: readonly (readonly [string, Partial<StripeRules>])[] = [
  ['flexible', { mode: 'flexible' }],
  [
    'flexible, backdated usage on the first invoice',
    { mode: 'flexible', backdatedUsage: 'first-invoice' },
  ],
  ['flexible, an end invoiced only with prorate', { mode: 'flexible', cancelNeedsProrate: true }],
  ['classic', { mode: 'classic' }],
];

/**
 * Returns a tenant since 1 January with G at 2 on its plan and at 3 on `gold`; billed on the 1st.
 */
async function life(
  rules: Partial<StripeRules>,
  settings: Partial<StripeSettings> = {},
): Promise<StripeLife> {
  open = await createLife(rules, { billingDay: 1, ...settings });
  await open.price(G, { amount: '200' });
  await open.price(G, { amount: '300', plan: 'gold' });
  return open;
}

/** Returns a tenant that is subscribed on 1 January. */
async function subscribed(
  rules: Partial<StripeRules>,
  settings: Partial<StripeSettings> = {},
): Promise<StripeLife> {
  const one = await life(rules, settings);
  one.at('01T00:06');
  await one.wish({});
  await one.change();
  return one;
}

describe.each(READINGS)('in billing mode %s', (_, rules) => {
  test('a change of plan leaves no usage on no invoice, and the month keeps its grace', async () => {
    const one = await subscribed(rules);
    one.at('05T00:02');
    await one.use('05T00', '10');
    one.at('16T10');
    expect(await one.wish({ plan: 'gold' })).toMatchObject({
      kind: 'drain',
      current: SILVER,
      wanted: 'gold',
    });
    await one.change();
    one.at('20T00:02');
    await one.use('20T00', '5');
    one.at('Feb 01T00:30');
    await one.use('31T23', '1');
    expect(one.billed('Mar 05T00')).toBe('(16) 20, Jan 18');
  });

  test('the window that is under way at a change of plan is billed by one side', async () => {
    const one = await subscribed(rules);
    one.at('16T10:00:30');
    await one.wish({ plan: 'gold' });
    one.at('16T10:01:30');
    await one.use('16T10:00', '1');
    await one.use('16T10:01', '1');
    one.at('16T10:05');
    await one.change();
    expect(one.billed('Mar 05T00')).toBe('(16) 2, Jan 3');
  });

  test('a new price takes the place of an archived one without losing what was used at it', async () => {
    const one = await subscribed(rules);
    one.at('10T00:02');
    await one.use('10T00', '10');
    for (const price of one.stripe.state.prices.values()) {
      if (price.metadata['vbilling_plan'] === SILVER) price.active = false;
    }
    await one.price(G, { amount: '250' });
    one.at('15T00');
    await one.wish({});
    await one.change();
    one.at('20T00:02');
    await one.use('20T00', '5');
    expect(one.billed('Mar 05T00')).toBe('(15) 20, Jan 12.5');
  });

  test('the first price of a meter bills what was used of it in the month before', async () => {
    const one = await subscribed(rules);
    one.at('10T00:02');
    await one.use('10T00', '6', H);
    one.at('15T00');
    await one.price(H, { amount: '500' });
    one.at('15T00:06');
    await one.wish({});
    await one.use('15T00:06', '1', H);
    await one.change();
    one.at('20T00:02');
    await one.use('20T00', '4', H);
    const bills = one.billed('Mar 05T00');
    expect(bills).not.toMatch(/never|twice|open/);
    expect(total(one)).toBe(55);
  });

  test('usage from before the first subscription is billed, of a month that is over too', async () => {
    const one = await life(rules);
    one.at('Feb 03T10');
    await one.wish({});
    await one.use('30T00', '2');
    await one.use('Feb 02T00', '5');
    await one.change();
    await one.use('31T00', '1');
    const bills = one.billed('Apr 05T00');
    expect(bills).not.toMatch(/never|twice|open/);
    expect(total(one)).toBe(16);
  });

  test('after payments that failed the next subscription bills what the ended one dropped', async () => {
    const one = await subscribed(rules);
    one.at('10T00:02');
    await one.use('10T00', '10');
    one.at('12T00');
    for (const subscription of one.stripe.state.subscriptions.values()) {
      Object.assign(subscription, { status: 'canceled', endedAt: one.time.now / 1000 });
    }
    one.at('12T01');
    await one.use('12T00:30', '3');
    await one.wish({});
    await one.change();
    const bills = one.billed('Mar 05T00');
    expect(bills).not.toMatch(/never|twice|open/);
    expect(total(one)).toBe(26);
  });

  test('a change of currency ends the old subscription with its invoice', async () => {
    const one = await subscribed(rules);
    await one.price(G, { amount: '100', currency: 'eur' });
    one.at('10T00:02');
    await one.use('10T00', '10');
    one.at('16T00');
    await one.wish({ currency: 'EUR' });
    await one.change();
    one.at('20T00:02');
    await one.use('20T00', '5');
    expect(one.billed('Mar 05T00')).toBe('(16) 20, Jan 5');
  });
});

test('a price in several currencies is charged in the one of the tenant', async () => {
  const one = await createLife({}, { billingDay: 1 });
  open = one;
  await one.price(G, { amount: '200', options: ['eur'] });
  one.at('01T00:06');
  await one.wish({ currency: 'EUR' });
  await one.change();
  const [subscription] = one.stripe.state.subscriptions.values();
  expect(subscription?.currency).toBe('eur');
  expect(await one.wish({ currency: 'EUR' })).toStrictEqual({ kind: 'done' });
  one.at('10T00');
  expect(await one.wish({ currency: 'USD' })).toMatchObject({ kind: 'drain' });
});

test('terms of payment are those of the settings, else of the subscription before; the billing day stays', async () => {
  const one = await subscribed(
    {},
    { payment: { collectionMethod: 'send_invoice', daysUntilDue: 14, automaticTax: undefined } },
  );
  expect(Object.fromEntries(one.posted('/v1/subscriptions')[0] ?? [])).toMatchObject({
    collection_method: 'send_invoice',
    days_until_due: '14',
    'billing_cycle_anchor_config[day_of_month]': '1',
  });
  for (const subscription of one.stripe.state.subscriptions.values()) {
    Object.assign(subscription, { automaticTax: true, defaultPaymentMethod: 'pm_1' });
  }
  one.at('16T10');
  await one.wish({ plan: 'gold' });
  await one.change();
  expect(Object.fromEntries(one.posted('/v1/subscriptions')[1] ?? [])).toMatchObject({
    collection_method: 'send_invoice',
    days_until_due: '14',
    'automatic_tax[enabled]': 'true',
    default_payment_method: 'pm_1',
    billing_cycle_anchor: String(Date.UTC(2027, 1, 1) / 1000),
  });
});

test('another billing day is that of new subscriptions alone', async () => {
  const one = await subscribed({}, { billingDay: 16 });
  const [first] = one.stripe.state.subscriptions.values();
  expect(first?.periodEnd).toBe(Date.UTC(2027, 0, 16) / 1000);
  one.at('20T10');
  const later = one.restart({ billingDay: 1 });
  expect(await later.customers.provision(testTenant(), NEVER)).toStrictEqual({ kind: 'done' });
  expect(one.posted(`/v1/subscriptions/${first?.id}`)).toStrictEqual([]);
  await settle(later, testTenant({ plan: 'gold' }));
  const other = testTenant({ id: 'tenant-vcluster-b-b' });
  await settle(later, other);
  const ends = [...one.stripe.state.subscriptions.values()]
    .filter(({ status }) => status === 'active')
    .map(({ periodEnd }) => new Date(periodEnd * 1000).toISOString());
  expect(ends).toStrictEqual(['2027-02-16T00:00:00.000Z', '2027-02-01T00:00:00.000Z']);
});

test('an invoice that is sent is due when the tenant’s override says', async () => {
  const one = await subscribed(
    {},
    { payment: { collectionMethod: 'send_invoice', daysUntilDue: 14 } },
  );
  one.at('16T10');
  await one.wish({ plan: 'gold', billing: { netTermsDays: 45 } });
  await one.change();
  expect(Object.fromEntries(one.posted('/v1/subscriptions')[1] ?? [])).toMatchObject({
    collection_method: 'send_invoice',
    days_until_due: '45',
  });
});

test('a change of plan goes on collecting what is open, but for what somebody has stopped', async () => {
  const one = await subscribed({});
  one.at('10T00:02');
  await one.use('10T00', '10');
  one.at('Feb 02T00');
  const [january] = one.stripe.state.invoices;
  expect(january).toMatchObject({ status: 'open', collects: true });
  await one.use('Feb 01T00', '1');
  await one.wish({ plan: 'gold' });
  await one.change();
  const collects = () => one.stripe.state.invoices.map((invoice) => invoice.collects);
  expect(collects()).toStrictEqual([true, true]);
  if (january !== undefined) january.collects = false;
  one.at('Feb 03T00');
  await one.use('Feb 02T00', '1');
  await one.wish({ plan: SILVER });
  await one.change();
  expect(collects()).toStrictEqual([false, true, true]);
});

test('a change of plan in the hour of a draft leaves no month without an invoice', async () => {
  const one = await subscribed({});
  one.at('10T00:02');
  await one.use('10T00', '10');
  one.at('Feb 01T00:10');
  await one.wish({ plan: 'gold' });
  await one.change();
  expect(one.billed('Feb 02T00')).toBe('Jan 20');
});

test('a draft that somebody has stopped stays so through a change of plan', async () => {
  const one = await subscribed({});
  one.at('10T00:02');
  await one.use('10T00', '10');
  one.at('Feb 01T00:10');
  const [draft] = one.stripe.state.invoices;
  if (draft !== undefined) draft.collects = false;
  await one.wish({ plan: 'gold' });
  await one.change();
  expect(draft).toMatchObject({ status: 'draft', collects: false });
});

test('a meter whose price is older than the month is not charged for what came before, and that is reported', async () => {
  const one = await subscribed({});
  await one.price(H, { amount: '400', plan: 'gold' });
  one.at('Feb 10T00:02');
  await one.use('Feb 10T00', '6', H);
  one.at('Feb 15T00');
  await one.price(H, { amount: '500' });
  one.at('Feb 15T00:06');
  await one.wish({});
  await one.change();
  expect(one.billed('Mar 05T00')).toBe('never 6');
  expect(one.destination.alerts.lateRefusals()[0]?.reason).toMatch(
    /^usage of tenant "tenant-vcluster-a-a" since 2027-02-01T00:00:00.000Z may be on no invoice: meter mtr_\w+/,
  );
});

describe('a subscription with items that somebody added', () => {
  async function withItem(rules: Partial<StripeRules>): Promise<StripeLife> {
    const one = await subscribed(rules);
    const byHand = await one.price(H, { plan: '', amount: '700' });
    const [id = ''] = one.stripe.state.subscriptions.keys();
    await fetch(`${one.stripe.url}/v1/subscriptions/${id}`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key' },
      body: new URLSearchParams({ 'items[0][price]': byHand }),
    });
    one.at('05T00:02');
    await one.use('05T00', '10');
    await one.use('05T00', '1', H);
    return one;
  }

  test('keeps them through a change of plan; what the others have used is on its next invoice', async () => {
    const one = await withItem({ mode: 'flexible' });
    one.at('16T10');
    await one.wish({ plan: 'gold' });
    await one.change();
    one.at('20T00:02');
    await one.use('20T00', '5');
    one.at('Feb 01T00:30');
    await one.use('31T23', '1');
    expect(one.billed('Mar 05T00')).toBe('Jan 20+7, Jan 18');
  });

  test('cannot change in classic mode: its tenant waits, and the reason says how to fix it', async () => {
    const one = await withItem({ mode: 'classic' });
    one.at('16T10');
    expect(await one.wish({ plan: 'gold' })).toStrictEqual({
      kind: 'rejected',
      reason: expect.stringMatching(
        /^subscription sub_\w+ of tenant "tenant-vcluster-a-a" is in billing mode classic .* migrate it/,
      ),
    });
  });
});

test('a change whose answer was lost is made once, and counts from the same moment', async () => {
  const one = await subscribed({ graceSeconds: GRACE });
  one.at('16T10');
  const outcome = await one.wish({ plan: 'gold' });
  if (outcome.kind !== 'drain') throw new Error(outcome.kind);
  const path = '/v1/subscriptions';
  for (const method of ['DELETE', 'POST']) {
    one.stripe.misbehaviours.add({ kind: 'commit-then-reset', method, path, times: 1 });
  }
  const tenant = testTenant({ plan: 'gold' });
  const answers: unknown[] = [];
  for (let attempt = 0; attempt < 4; attempt += 1) {
    answers.push(await one.restart().plans.change(tenant, outcome.before, NEVER));
    one.at(`16T10:0${attempt + 1}`);
  }
  const live = [...one.stripe.state.subscriptions.values()].filter(
    ({ status }) => status === 'active',
  );
  expect(live).toHaveLength(1);
  const [made] = live;
  const from = (made?.items[0]?.created ?? 0) * 1000;
  expect(answers.slice(2)).toStrictEqual([
    { kind: 'changed', from },
    { kind: 'changed', from },
  ]);
});

/** Returns the total of all bills. */
function total({ stripe }: StripeLife): number {
  const { invoices } = stripe.account();
  return invoices
    .filter(({ isFinal }) => isFinal)
    .flatMap(({ lines }) => lines)
    .reduce((all, { amount }) => all + Number(amount), 0);
}
