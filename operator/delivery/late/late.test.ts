import { afterEach, expect, test, vi } from 'vitest';
import { invoiceAmounts } from '../../../e2e/fakes/lago/amounts.ts';
import { type FakeLago, startFakeLago } from '../../../e2e/fakes/lago/lago.ts';
import { type FakeStripe, startFakeStripe } from '../../../e2e/fakes/stripe/stripe.ts';
import { lineAmounts } from '../../../e2e/fakes/stripe/amounts.ts';
import type { DestinationSettings } from '../../settings/settings.ts';
import { correctionOf } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import { type MonthWorld, startMonths } from '../testing/month-world.ts';
import { lagoOptions, stripeOptions } from '../testing/vendor-options.ts';

const METRIC = 'tenant_instance_hours';
const closers: (() => Promise<unknown>)[] = [];
const { signal: NEVER } = new AbortController();

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

type Late = NonNullable<DestinationSettings['late']>;

async function withStripe(
  late: Late,
  rules: Parameters<typeof startFakeStripe>[0]['rules'] = {},
): Promise<MonthWorld & { readonly stripe: FakeStripe }> {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key', rules });
  closers.push(() => stripe.close());
  const options = stripeOptions(stripe.url);
  const world = await startMonths({
    settings: { type: 'stripe', options, late },
    advanceTo: stripe.turnTo,
  });
  closers.push(() => world.stop());
  const meter = [...stripe.state.meters.values()].find(({ event_name }) => event_name === METRIC);
  const answer = await fetch(`${stripe.url}/v1/prices`, {
    method: 'POST',
    headers: { authorization: 'Bearer sk_test_key' },
    body: new URLSearchParams({
      currency: 'usd',
      'product_data[name]': METRIC,
      unit_amount_decimal: '200.5',
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter?.id ?? '',
      'metadata[vbilling_plan]': 'tenant-standard',
    }),
  });
  expect(answer.status, await answer.text()).toBe(200);
  // Prices that were read before are believed for five minutes.
  await world.restart();
  return { ...world, stripe };
}

async function withLago(
  late: Late,
  rules: Parameters<typeof startFakeLago>[0]['rules'] = {},
): Promise<MonthWorld & { readonly lago: FakeLago }> {
  const lago = await startFakeLago({ apiKey: 'key', rules });
  closers.push(() => lago.close());
  const options = lagoOptions(lago.url);
  const world = await startMonths({
    settings: { type: 'lago', options, late },
    advanceTo: lago.turnTo,
  });
  closers.push(() => world.stop());
  const charge = lago.state.plans
    .get('tenant-standard')
    ?.charges.find(({ billable_metric_code }) => billable_metric_code === METRIC);
  if (charge === undefined) throw new Error('no charge');
  Object.assign(charge, { properties: { amount: '2.005' } });
  return { ...world, lago };
}

/** January with 10 units, invoiced; then usage of the 31st arrives. */
async function january(one: MonthWorld, ...late: readonly [string, string][]): Promise<void> {
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-10T02:00');
  await one.use('02-10T01:59', '1');
  await one.report();
  for (const [begin, quantity] of late) await one.use(begin, quantity);
}

async function eventsOf({ ledger }: MonthWorld): Promise<readonly UsageEvent[]> {
  const events: UsageEvent[] = [];
  for await (const { event } of ledger.scan(0, Number.MAX_SAFE_INTEGER, NEVER)) events.push(event);
  return events;
}

async function notesOf(one: MonthWorld) {
  const events = await eventsOf(one);
  return events.flatMap(({ id, quantity, properties }) =>
    id.startsWith('cor1_late_') ? [{ quantity, ...properties }] : [],
  );
}

test('Stripe: usage that comes too late is a line of its own on the next invoice, at its own price', async () => {
  const one = await withStripe('next');
  await january(one, ['01-31T22:00', '4'], ['01-31T23:00', '0.123']);
  expect(one.stripe.state.events.map(({ value }) => value)).toStrictEqual(['10', '1']);
  expect(one.stripe.state.invoiceItems).toStrictEqual([]);
  // The process that took them ends before anything is billed.
  await one.restart();
  one.turnTo('02-10T04:00');
  await vi.waitFor(() => expect(one.stripe.state.invoiceItems).toHaveLength(1));
  await vi.waitFor(async () => expect(await notesOf(one)).toHaveLength(2));
  expect(one.stripe.state.invoiceItems).toMatchObject([
    {
      line: {
        // 4.123 × 2.005 dollars, rounded once.
        cents: { digits: 827n },
        description: expect.stringContaining(
          '4.123 hours of 2027-01-31T22:00:00Z to 2027-01-31T23:01:00Z',
        ),
      },
    },
  ]);
  const [item] = one.stripe.state.invoiceItems;
  expect(await notesOf(one)).toMatchObject([
    {
      quantity: '0',
      corrects: `${METRIC}:01-31T22:00`,
      reason: expect.stringContaining('late: its invoice'),
      destination: 'bills',
      line: item?.id,
      billed: '4',
    },
    { corrects: `${METRIC}:01-31T23:00`, line: item?.id, billed: '0.123' },
  ]);
  expect(await one.report()).toMatchObject({ differing: 0 });
  one.turnTo('03-10T02:00');
  await one.use('03-10T01:00', '1');
  const lines = one.stripe.account().invoices.flatMap((invoice) => invoice.lines);
  expect(lines.map(({ amount }) => amount)).toContain('8.27');
  expect(await one.report()).toMatchObject({ differing: 0 });
});

test('Stripe: a key that may not make lines is reported, and usage goes on', async () => {
  const one = await withStripe('next');
  await january(one, ['01-31T22:00', '4']);
  const path = '/v1/invoiceitems';
  one.stripe.misbehaviours.add({ kind: 'status', status: 403, method: 'POST', path, times: 1 });
  one.turnTo('02-10T04:00');
  await vi.waitFor(() =>
    expect(one.delivery().status('bills')).toMatchObject({
      delivering: true,
      lateRefusals: [{ reason: expect.stringContaining('the API key lacks "Invoices: write"') }],
    }),
  );
  await one.use('02-10T03:00', '1');
  // With the permission it is billed at the next attempt.
  one.turnTo('02-10T06:00');
  await vi.waitFor(() => expect(one.stripe.state.invoiceItems).toHaveLength(1));
  await vi.waitFor(() => expect(one.delivery().status('bills')?.lateRefusals).toStrictEqual([]));
});

test('Stripe: usage of a closed period that is sent anyway is on no invoice, and is reported', async () => {
  const one = await withStripe('send');
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-10T00:02');
  await one.use('01-20T00:00', '4');
  expect(await one.report()).toMatchObject({
    differing: 1,
    examples: [{ difference: '-4', cause: 'the usage arrived after its invoice was final' }],
  });
  expect(one.stripe.account().events).toMatchObject([
    { units: '10', fate: { kind: 'invoiced' } },
    { units: '4', fate: { kind: 'never', because: 'it came after its quantity was fixed' } },
  ]);
});

test('Stripe: what was billed too much is credited on its invoice', async () => {
  const one = await withStripe('credit');
  await january(one);
  const events = await eventsOf(one);
  const [first] = events;
  if (first === undefined) throw new Error('no event');
  const note = { reason: 'pushed twice', author: 'ann' };
  const back = correctionOf({ event: first, sequence: 1 }, 1, -4_000_000_000n, '', note);
  await one.append({ ...back, recorded_at: '2027-02-10T03:00:00Z' });
  one.turnTo('02-10T06:00');
  await vi.waitFor(() => expect(one.stripe.state.creditNotes).toHaveLength(1));
  expect(one.stripe.state.creditNotes).toMatchObject([{ amount: 802 }]);
  expect(one.stripe.state.invoiceItems).toStrictEqual([]);
  expect(one.stripe.state.events).toHaveLength(2);
  await vi.waitFor(async () =>
    expect(await notesOf(one)).toMatchObject([{ corrects: back.id, billed: '-4' }]),
  );
  expect(await one.report()).toMatchObject({ differing: 0 });
});

const VAT = { percent: 19, behavior: 'exclusive', isAutomatic: true } as const;

/** January with 10 units at 2.005, of which 4 are taken back when its invoice is final. */
async function creditAtStripe(
  rules: Parameters<typeof startFakeStripe>[0]['rules'],
  late: Late = 'credit',
  isPaid = false,
) {
  const one = await withStripe(late, rules);
  await january(one);
  const [invoice] = one.stripe.state.invoices;
  if (isPaid && invoice !== undefined) invoice.status = 'paid';
  const [first] = await eventsOf(one);
  if (first === undefined) throw new Error('no event');
  const note = { reason: 'pushed twice', author: 'ann' };
  const back = correctionOf({ event: first, sequence: 1 }, 1, -4_000_000_000n, '', note);
  await one.append({ ...back, recorded_at: '2027-02-10T03:00:00Z' });
  one.turnTo('02-10T06:00');
  return one;
}

test.each([
  ['Stripe Tax', { tax: VAT }, 802 + 152],
  ['tax rates set by hand', { tax: { ...VAT, isAutomatic: false } }, 802 + 152],
  ['tax in the price', { tax: { ...VAT, behavior: 'inclusive', isAutomatic: false } }, 802],
  ['no tax, as in reverse charge', { tax: { ...VAT, percent: 0 } }, 802],
  ['no tax in the price', { tax: { ...VAT, behavior: 'inclusive', percent: 0 } }, 802],
  ['a coupon', { discountPercent: 20 }, 802 - 160],
  ['a coupon and a tax', { discountPercent: 20, tax: VAT }, 802 - 160 + 122],
  ['prepaid credit for half of it', { grantedCents: 1_000 }, 802 - 400],
] as const)(
  'Stripe: with %s a credit note is for what Stripe says it is',
  async (_, rules, cents) => {
    for (const isPaid of [false, true]) {
      const one = await creditAtStripe(rules, 'credit', isPaid);
      await vi.waitFor(() => expect(one.stripe.state.creditNotes).toHaveLength(1));
      const toBalance = isPaid ? cents : 0;
      expect(one.stripe.state.creditNotes).toMatchObject([{ amount: cents, toBalance }]);
      expect(one.delivery().status('bills')?.lateRefusals).toStrictEqual([]);
    }
  },
);

test('Stripe: a credit that Stripe would put tax on top of once more waits for a person', async () => {
  const one = await creditAtStripe({ tax: { ...VAT, behavior: 'inclusive' } });
  const page = await one.delivery().deadLetters('bills', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    { reason: expect.stringContaining('late: its price includes tax') },
  ]);
  expect(one.stripe.state.creditNotes).toStrictEqual([]);
});

test('Stripe: with a coupon what was billed too much is no line at the full price', async () => {
  const one = await creditAtStripe({ discountPercent: 20 }, 'next');
  await vi.waitFor(() => expect(one.stripe.state.creditNotes).toMatchObject([{ amount: 642 }]));
  expect(one.stripe.state.invoiceItems).toStrictEqual([]);
});

test('Stripe: without tax and coupons it is a line below zero', async () => {
  const one = await creditAtStripe({}, 'next');
  await vi.waitFor(() =>
    expect(one.stripe.state.invoiceItems).toMatchObject([{ line: { cents: { digits: -802n } } }]),
  );
  expect(one.stripe.state.creditNotes).toStrictEqual([]);
});

test.each([
  ['Stripe Tax', VAT, 827 + 157],
  ['Stripe Tax in the price', { ...VAT, behavior: 'inclusive' }, 827],
  ['tax rates set by hand', { ...VAT, isAutomatic: false }, 827 + 157],
] as const)('Stripe: with %s late usage is taxed like that of its time', async (_, tax, cents) => {
  const one = await withStripe('next', { tax });
  await january(one, ['01-31T22:00', '4'], ['01-31T23:00', '0.123']);
  one.turnTo('02-10T04:00');
  await vi.waitFor(() => expect(one.stripe.state.invoiceItems).toHaveLength(1));
  one.turnTo('03-10T02:00');
  const { state } = one.stripe;
  const [february] = state.invoices.filter(({ lines }) => lines.length > 1);
  const [line] = february?.lines ?? [];
  expect(february && line && lineAmounts(state, february, line).total).toBe(cents);
});

test('Stripe: a line whose answer is lost is made once', async () => {
  const one = await withStripe('next');
  await january(one, ['01-31T22:00', '4']);
  const path = '/v1/invoiceitems';
  one.stripe.misbehaviours.add({ kind: 'commit-then-reset', method: 'POST', path, times: 1 });
  one.turnTo('02-10T04:00');
  await vi.waitFor(() => expect(one.stripe.state.invoiceItems).toHaveLength(1));
  // Its idempotency key is forgotten by the time that the process is back.
  await one.restart();
  one.turnTo('02-12T04:00');
  await vi.waitFor(async () => expect(await notesOf(one)).toHaveLength(1));
  expect(one.stripe.state.invoiceItems).toHaveLength(1);
});

test('Stripe: a correction of what was billed late is billed the same way', async () => {
  const one = await withStripe('next');
  await january(one, ['01-31T22:00', '4']);
  const late = (await eventsOf(one)).at(-1);
  if (late === undefined) throw new Error('no event');
  const note = { reason: 'measured twice', author: 'ann' };
  const sequence = one.ledger.head();
  const back = correctionOf({ event: late, sequence }, 1, -1_000_000_000n, '', note);
  await one.append({ ...back, recorded_at: '2027-02-10T03:00:00Z' });
  one.turnTo('02-10T06:00');
  await vi.waitFor(() => expect(one.stripe.state.invoiceItems).toHaveLength(1));
  expect(one.stripe.state.invoiceItems).toMatchObject([{ line: { cents: { digits: 602n } } }]);
  expect(one.delivery().status('bills')).toMatchObject({ deadLetters: 0 });
});

test('Lago: usage that comes too late is on a one-off invoice, at its own price', async () => {
  const one = await withLago('next');
  await january(one, ['01-31T22:00', '4'], ['01-31T23:00', '0.123']);
  expect(one.lago.state.events.size).toBe(2);
  one.turnTo('02-10T04:00');
  const oneOffs = () => one.lago.state.invoices.filter(({ type }) => type === 'one_off');
  await vi.waitFor(() => expect(oneOffs()).toHaveLength(1));
  expect(oneOffs()).toMatchObject([{ fees: [{ cents: { digits: 827n } }] }]);
  await vi.waitFor(async () =>
    expect(await notesOf(one)).toMatchObject([
      { line: oneOffs()[0]?.lago_id, billed: '4' },
      { line: oneOffs()[0]?.lago_id, billed: '0.123' },
    ]),
  );
  expect(await one.report()).toMatchObject({ differing: 0 });
});

test('Lago: a one-off invoice whose answer is lost is made once', async () => {
  const one = await withLago('next');
  await january(one, ['01-31T22:00', '4']);
  const path = '/api/v1/invoices';
  one.lago.misbehaviours.add({ kind: 'commit-then-reset', path, method: 'POST', times: 1 });
  one.turnTo('02-10T04:00');
  const oneOffs = () => one.lago.state.invoices.filter(({ type }) => type === 'one_off');
  await vi.waitFor(() => expect(oneOffs()).toHaveLength(1));
  await one.restart();
  one.turnTo('02-10T08:00');
  await vi.waitFor(async () => expect(await notesOf(one)).toHaveLength(1));
  expect(oneOffs()).toHaveLength(1);
});

async function creditAtLago(rules: Parameters<typeof startFakeLago>[0]['rules']) {
  const one = await withLago('credit', rules);
  await january(one);
  const [first] = await eventsOf(one);
  if (first === undefined) throw new Error('no event');
  const note = { reason: 'pushed twice', author: 'ann' };
  const back = correctionOf({ event: first, sequence: 1 }, 1, -4_000_000_000n, '', note);
  await one.append({ ...back, recorded_at: '2027-02-10T03:00:00Z' });
  one.turnTo('02-10T06:00');
  return one;
}

const OF_CUSTOMER = { percent: 19, of: 'customer' } as const;

test.each([
  ['neither tax nor coupon', {}, 802],
  ['a tax', { tax: OF_CUSTOMER }, 802 + 152],
  ['a coupon', { couponPercent: 20 }, 802 - 160],
  ['a coupon and a tax', { couponPercent: 20, tax: OF_CUSTOMER }, 802 - 160 + 122],
] as const)('Lago: with %s a credit note is for what Lago estimates', async (_, rules, cents) => {
  const one = await creditAtLago(rules);
  await vi.waitFor(() => expect(one.lago.state.creditNotes).toMatchObject([{ cents }]));
  expect(one.delivery().status('bills')?.lateRefusals).toStrictEqual([]);
});

test.each(['customer', 'charge', 'provider'] as const)(
  'Lago: late usage has the tax that its charge had, by the tax of the %s',
  async (of) => {
    const one = await withLago('next', { tax: { percent: 19, of } });
    await january(one, ['01-31T22:00', '4'], ['01-31T23:00', '0.123']);
    one.turnTo('02-10T04:00');
    const { state } = one.lago;
    const oneOffs = () => state.invoices.filter(({ type }) => type === 'one_off');
    await vi.waitFor(() => expect(oneOffs()).toHaveLength(1));
    expect(oneOffs().map((invoice) => invoiceAmounts(state, invoice).total)).toStrictEqual([984]);
  },
);

test('Lago: late usage is not billed without the coupon that its charge had', async () => {
  const one = await withLago('next', { couponPercent: 20 });
  await january(one, ['01-31T22:00', '4']);
  const page = await one.delivery().deadLetters('bills', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    { reason: expect.stringContaining('late: its charge has a coupon') },
  ]);
  one.turnTo('02-10T04:00');
  expect(one.lago.state.invoices.filter(({ type }) => type === 'one_off')).toStrictEqual([]);
});

test('Lago: a credit that needs a licence is reported with its amount', async () => {
  const one = await creditAtLago({ isPremium: false });
  const reason = expect.stringContaining('-8.02 USD: credit notes need a licence of Lago');
  await vi.waitFor(() =>
    expect(one.delivery().status('bills')?.lateRefusals).toMatchObject([{ events: 1, reason }]),
  );
});

test('late usage that no line of an invoice has a price for waits for a person', async () => {
  const one = await withLago('next');
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-10T02:00');
  await one.use('02-10T01:59', '1');
  await one.report();
  await one.use('01-31T22:00', '4', 'tenant_gpu_hours');
  const page = await one.delivery().deadLetters('bills', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    { reason: expect.stringContaining('late: no line of a final invoice has a price for it') },
  ]);
  expect(one.lago.state.events.size).toBe(2);
});
