import { afterEach, expect, test, vi } from 'vitest';
import { type FakeLago, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { type FakeMetronome, startFakeMetronome } from '../../e2e/fakes/metronome/metronome.ts';
import { type FakeStripe, startFakeStripe } from '../../e2e/fakes/stripe/stripe.ts';
import { Secret } from '../model/secret.ts';
import { type MonthWorld, startMonths } from './testing/month-world.ts';
import { lagoOptions, stripeOptions } from './testing/vendor-options.ts';

const METRIC = 'tenant_instance_hours';
const GPU = 'tenant_gpu_hours';
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function withLago(
  rules: Parameters<typeof startFakeLago>[0]['rules'] = {},
  late: 'send' | 'hold' | 'next' = 'send',
): Promise<MonthWorld & { readonly lago: FakeLago }> {
  const lago = await startFakeLago({ apiKey: 'key', rules });
  closers.push(() => lago.close());
  const options = lagoOptions(lago.url);
  const world = await startMonths({
    settings: { type: 'lago', options, late },
    advanceTo: lago.turnTo,
  });
  closers.push(() => world.stop());
  return { ...world, lago };
}

interface StripeMonths extends MonthWorld {
  readonly stripe: FakeStripe;
  readonly price: (meter: string) => Promise<unknown>;
}

async function withStripe(): Promise<StripeMonths> {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key' });
  closers.push(() => stripe.close());
  const options = stripeOptions(stripe.url);
  const world = await startMonths({
    settings: { type: 'stripe', options },
    advanceTo: stripe.turnTo,
  });
  closers.push(() => world.stop());
  const price = async (name: string): Promise<void> => {
    const meters = [...stripe.state.meters.values()];
    const meter = meters.find(({ event_name }) => event_name === name);
    const answer = await fetch(`${stripe.url}/v1/prices`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test_key' },
      body: new URLSearchParams({
        currency: 'usd',
        'product_data[name]': name,
        unit_amount_decimal: '200',
        'recurring[interval]': 'month',
        'recurring[usage_type]': 'metered',
        'recurring[meter]': meter?.id ?? '',
        'metadata[vbilling_plan]': 'tenant-standard',
      }),
    });
    expect(answer.status, await answer.text()).toBe(200);
  };
  await price(METRIC);
  // Prices that were read before are believed for five minutes.
  await world.restart();
  return { ...world, stripe, price };
}

test('Lago: a month that is invoiced as it was delivered is no mismatch', async () => {
  const one = await withLago();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T02:00');
  await one.use('02-01T01:00', '1');
  expect(await one.report()).toMatchObject({ tenants: 1, unanswered: 0, differing: 0 });
  expect(one.lago.account().invoices.some(({ isFinal }) => isFinal)).toBe(true);
});

test('Lago: usage that arrives when the month is invoiced already is reported', async () => {
  const one = await withLago();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.use('01-31T23:00', '4');
  expect(await one.report()).toMatchObject({
    unanswered: 0,
    differing: 1,
    examples: [
      {
        metric: METRIC,
        difference: '-4',
        cause: 'the usage arrived after its invoice was final',
      },
    ],
  });
});

test('Lago: a draft takes in what comes within its grace, and is no mismatch', async () => {
  const one = await withLago({ graceDays: 3 });
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.use('01-31T23:00', '4');
  expect(await one.report()).toMatchObject({ unanswered: 0, differing: 0 });
  one.turnTo('02-05T02:00');
  expect(await one.report()).toMatchObject({ tenants: 1, unanswered: 0, differing: 0 });
});

test('Stripe: a month that is invoiced as it was delivered is no mismatch', async () => {
  const one = await withStripe();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('01-05T00:10');
  await one.use('01-05T00:09', '2');
  one.turnTo('03-08T02:00');
  await one.use('03-08T01:00', '1');
  expect(await one.report()).toMatchObject({ tenants: 1, unanswered: 0, differing: 0 });
  expect(one.stripe.account().invoices.some(({ isFinal }) => isFinal)).toBe(true);
});

test('Stripe: usage without a price at the time of its invoice is reported', async () => {
  const one = await withStripe();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  await one.use('01-05T00:01', '3', GPU);
  one.turnTo('01-05T00:30');
  await one.use('01-05T00:20', '2');
  one.turnTo('02-10T00:02');
  await one.use('02-10T00:01', '1');
  expect(await one.report()).toMatchObject({
    unanswered: 0,
    differing: 1,
    examples: [
      {
        metric: GPU,
        difference: '-3',
        cause: 'plan "tenant-standard" has no price for it',
      },
    ],
  });
});

test('late usage waits for a person where that is wanted, and is sent when it is replayed', async () => {
  const one = await withLago({}, 'hold');
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.report();
  // The process that saw the invoice is gone; what is closed is on record.
  await one.restart();
  await one.use('01-31T23:00', '4');
  await one.use('02-01T01:29', '1');
  const page = await one.delivery().deadLetters('bills', 0, 10);
  expect(page?.deadLetters).toMatchObject([
    {
      event: { window_start: '2027-01-31T23:00:00Z' },
      reason: expect.stringContaining('late: invoices until 2027-02-01T00:00:00Z are final'),
    },
  ]);
  expect(await one.report()).toMatchObject({ differing: 0 });
  expect(await one.delivery().replay('bills', undefined)).toStrictEqual({
    kind: 'wants-force',
    reason:
      '1 event of closed billing periods: of tenant "acme", whose invoices until 2027-02-01T00:00:00Z are final: Lago accepts it and puts it on no invoice: a finalized invoice does not change, and the next one begins after it',
  });
  expect(one.delivery().status('bills')?.deadLetters).toBe(1);
  expect(await one.delivery().replay('bills', undefined, true)).toMatchObject({
    kind: 'replayed',
    forced: expect.stringContaining('until 2027-02-01T00:00:00Z'),
  });
  await vi.waitFor(() => expect(one.delivery().status('bills')?.deadLetters).toBe(0));
  one.turnTo('02-01T04:00');
  expect(await one.report()).toMatchObject({ examples: [{ difference: '-4' }] });
});

test('a cursor goes back over an invoiced month only by force, and over the running one without', async () => {
  const one = await withLago();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.use('02-01T01:00', '1');
  await one.report();
  expect(await one.delivery().moveCursor('bills', 0)).toMatchObject({
    kind: 'wants-force',
    reason: expect.stringContaining('1 event of closed billing periods: of tenant "acme"'),
  });
  expect(one.delivery().status('bills')?.cursor).toBe(2);
  expect(await one.delivery().moveCursor('bills', 1)).toEqual({
    kind: 'moved',
    sequence: 1,
    warnings: ['1 events are sent again'],
  });
  expect(await one.delivery().moveCursor('bills', 0, true)).toMatchObject({
    kind: 'moved',
    sequence: 0,
    forced: expect.stringContaining('until 2027-02-01T00:00:00Z'),
  });
  await vi.waitFor(() => expect(one.delivery().status('bills')?.cursor).toBe(2));
  expect(await one.report()).toMatchObject({ differing: 0 });
});

test('where late usage is billed separately, the answer says that force does so', async () => {
  const one = await withLago({}, 'next');
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.use('02-01T01:00', '1');
  await one.report();
  expect(await one.delivery().moveCursor('bills', 0)).toMatchObject({
    kind: 'wants-force',
    reason: expect.stringMatching(/are final: late is "next": it is billed on separate lines$/),
  });
});

test('a cursor goes back over events that cannot be read only by force', async () => {
  const one = await withLago();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  const read = one.ledger.read.bind(one.ledger);
  one.ledger.read = async () => ({ kind: 'failed', cause: 'corrupt', message: 'damaged' });
  await expect(one.delivery().moveCursor('bills', 0)).rejects.toThrow('damaged');
  expect(await one.delivery().moveCursor('bills', 0, true)).toMatchObject({ kind: 'moved' });
  one.ledger.read = read;
  await vi.waitFor(() => expect(one.delivery().status('bills')?.cursor).toBe(1));
});

test('late usage is sent where nothing else is set', async () => {
  const one = await withLago();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-01T01:30');
  await one.report();
  await one.use('01-31T23:00', '4');
  expect(one.delivery().status('bills')).toMatchObject({ deadLetters: 0 });
});

/** A destination whose usage nothing invoices: no price, no subscription, no contract. */
const UNCOVERED = {
  lago: async () => {
    const one = await withLago();
    return {
      ...one,
      // Somebody ends the subscription without an invoice.
      uncover: async () => {
        const path = '/api/v1/subscriptions/sub-acme?on_termination_invoice=skip';
        const headers = { authorization: 'Bearer key' };
        const answer = await fetch(one.lago.url + path, { method: 'DELETE', headers });
        expect(answer.status).toBe(200);
      },
    };
  },
  stripe: async () => {
    const stripe = await startFakeStripe({ apiKey: 'sk_test_key' });
    closers.push(() => stripe.close());
    const options = stripeOptions(stripe.url, { autoSubscribe: false });
    const settings = { type: 'stripe', options } as const;
    const world = await startMonths({ settings, advanceTo: stripe.turnTo });
    closers.push(() => world.stop());
    return { ...world, uncover: async () => undefined };
  },
  metronome: async () => {
    const world = await withMetronome();
    return { ...world, uncover: async () => undefined };
  },
};

async function withMetronome(): Promise<MonthWorld & { readonly metronome: FakeMetronome }> {
  const metronome = await startFakeMetronome({ apiToken: 'token' });
  closers.push(() => metronome.close());
  const options = { url: metronome.url, apiToken: new Secret('token'), currency: 'USD' };
  const world = await startMonths({
    settings: { type: 'metronome', options },
    advanceTo: metronome.turnTo,
  });
  closers.push(() => world.stop());
  return { ...world, metronome };
}

test.each(Object.entries(UNCOVERED))(
  '%s: usage that no invoice covers is reported when it is 40 to 45 days old, though none follows',
  async (_vendor, start) => {
    const one = await start();
    one.turnTo('01-05T00:02');
    await one.use('01-05T00:00', '10');
    expect(await one.report()).toMatchObject({ unanswered: 0, differing: 0 });
    // What is on record is not in this process's memory alone.
    await one.restart();
    one.turnTo('01-07T00:00');
    await one.use('01-05T00:01', '2');
    await one.uncover();
    one.turnTo('02-13T22:00');
    expect(await one.report()).toMatchObject({ unanswered: 0, differing: 0 });
    one.turnTo('02-20T00:00');
    expect(await one.report()).toMatchObject({
      differing: 1,
      examples: [
        {
          metric: METRIC,
          difference: '-12',
          cause: expect.stringMatching(
            /^no invoice covers usage before 2027-01-|^plan ".*" has no price for it/,
          ),
        },
      ],
    });
  },
);

test('usage that a draft of a year still covers is not reported, however old it is', async () => {
  const one = await withMetronome();
  const call = async (path: string, body: unknown): Promise<string> => {
    const answer = await fetch(one.metronome.url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer token' },
      body: JSON.stringify(body),
    });
    const { data } = (await answer.json()) as { readonly data: { readonly id: string } };
    return data.id;
  };
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  await call('/v1/contracts/create', {
    customer_id: one.metronome.state.customers[0]?.id,
    rate_card_id: await call('/v1/contract-pricing/rate-cards/create', { name: 'by hand' }),
    starting_at: '2027-01-01T00:00:00Z',
    usage_statement_schedule: { frequency: 'ANNUAL', day: 'CONTRACT_START' },
  });
  for (const day of ['01-10T00:00', '01-20T00:00', '02-20T00:00', '03-20T00:00']) {
    one.turnTo(day);
    expect(await one.report()).toMatchObject({ unanswered: 0, differing: 0 });
  }
});
