import { Stripe } from 'stripe';
import { afterEach, expect, test } from 'vitest';
import { time } from '../vectors.ts';
import type { StripeRules } from './state.ts';
import { type FakeStripe, startFakeStripe } from './stripe.ts';

const open: FakeStripe[] = [];

afterEach(() => Promise.all(open.splice(0).map((one) => one.close())));

/** Returns January of a customer with some units at 2.005 dollars, with its final invoice. */
async function january(rules: Partial<StripeRules>, units = '10') {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key', rules });
  open.push(stripe);
  stripe.turnTo(time('01T00'));
  const { hostname, port } = new URL(stripe.url);
  const client = new Stripe('sk_test_key', {
    host: hostname,
    port: Number(port),
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  });
  const meter = await client.billing.meters.create({
    display_name: 'GPU hours',
    event_name: 'gpu_hours',
    default_aggregation: { formula: 'sum' },
  });
  const price = await client.prices.create({
    currency: 'usd',
    product_data: { name: 'GPU' },
    unit_amount_decimal: Stripe.Decimal.from('200.5'),
    recurring: { interval: 'month', usage_type: 'metered', meter: meter.id },
  });
  const customer = await client.customers.create({ name: 'Acme' });
  await client.subscriptions.create({ customer: customer.id, items: [{ price: price.id }] });
  const use = async (at: string, value: string): Promise<void> => {
    stripe.turnTo(time(at));
    const payload = { stripe_customer_id: customer.id, value };
    const timestamp = time(at) / 1000;
    await client.billing.meterEvents.create({ event_name: 'gpu_hours', payload, timestamp });
  };
  await use('05T00', units);
  stripe.turnTo(time('Feb 01T02'));
  const invoices = () => client.invoices.list({ customer: customer.id });
  const [invoice] = (await invoices()).data;
  if (invoice === undefined) throw new Error('no invoice');
  return { client, invoice, invoices, use, stripe };
}

const TAX = { percent: 19, behavior: 'exclusive', isAutomatic: true } as const;

test.each([
  [{}, { subtotal: 2005, total: 2005, amount_due: 2005 }, 802],
  [{ tax: TAX }, { subtotal: 2005, total: 2386, amount_due: 2386 }, 954],
  [{ tax: { ...TAX, behavior: 'inclusive' } }, { total: 2005 }, 954],
  [{ tax: { ...TAX, behavior: 'inclusive', isAutomatic: false } }, { total: 2005 }, 802],
  [{ discountPercent: 20 }, { subtotal: 2005, total: 1604 }, 642],
  [{ grantedCents: 500 }, { subtotal: 2005, total: 1505 }, 602],
] as const)(
  'with %j an invoice is for %j, and a credit of 802 for %j',
  async (rules, is, credit) => {
    const { client, invoice } = await january(rules);
    expect(invoice).toMatchObject({ status: 'open', ...is });
    const [line] = invoice.lines.data;
    const preview = await client.creditNotes.preview({
      invoice: invoice.id,
      lines: [{ type: 'invoice_line_item', invoice_line_item: line?.id ?? '', amount: 802 }],
    });
    expect(preview).toMatchObject({
      total: credit,
      pre_payment_amount: credit,
      post_payment_amount: 0,
    });
  },
);

test('less than the minimum of a charge goes onto the next invoice', async () => {
  const { invoice, invoices, use, stripe } = await january({}, '0.2');
  expect(invoice).toMatchObject({ status: 'paid', total: 40, amount_due: 0 });
  await use('Feb 05T00', '1');
  stripe.turnTo(time('Mar 01T02'));
  expect((await invoices()).data[0]).toMatchObject({ status: 'open', total: 201, amount_due: 241 });
});

test('what is credited after it was paid is taken off the next invoice', async () => {
  const { client, invoice, invoices, use, stripe } = await january({ tax: TAX });
  await client.invoices.pay(invoice.id);
  const credit = {
    invoice: invoice.id,
    lines: [
      {
        type: 'invoice_line_item' as const,
        invoice_line_item: invoice.lines.data[0]?.id ?? '',
        amount: 802,
      },
    ],
  };
  await expect(client.creditNotes.create(credit)).rejects.toThrow(/post payment amount \(954\)/);
  await client.creditNotes.create({ ...credit, credit_amount: 954 });
  await use('Feb 05T00', '10');
  stripe.turnTo(time('Mar 01T02'));
  expect((await invoices()).data[0]).toMatchObject({ total: 2386, amount_due: 2386 - 954 });
});

test('a draft is stopped by the end of a subscription, and goes on with auto_advance', async () => {
  const { client, invoices, use, stripe } = await january({});
  await use('Feb 05T00', '1');
  stripe.turnTo(time('Mar 01T00:10'));
  const [subscription] = (await client.subscriptions.list()).data;
  await client.subscriptions.cancel(subscription?.id ?? '', { invoice_now: true });
  stripe.turnTo(time('Mar 04T00'));
  const drafts = async () => (await invoices()).data.filter(({ status }) => status === 'draft');
  const [draft] = await drafts();
  expect(draft).toMatchObject({ auto_advance: false, total: 201 });
  await client.invoices.update(draft?.id ?? '', { auto_advance: true });
  stripe.turnTo(time('Mar 04T00:01'));
  expect(await drafts()).toStrictEqual([]);
});
