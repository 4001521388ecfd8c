import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import type { Account } from '../../e2e/fakes/account.ts';
import { exact, plus, textOf, ZERO } from '../../e2e/fakes/exact.ts';
import { startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { startFakeMetronome } from '../../e2e/fakes/metronome/metronome.ts';
import { startFakeStripe } from '../../e2e/fakes/stripe/stripe.ts';
import { Secret } from '../model/secret.ts';
import { type MonthWorld, on, startMonths } from './testing/month-world.ts';
import { lagoOptions, stripeOptions } from './testing/vendor-options.ts';

const METRIC = 'tenant_instance_hours';
const JANUARY = on('01-01T00:00');
const PAGE = new URL('../../docs/explanation/a-month.md', import.meta.url);
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface Vendor extends MonthWorld {
  readonly account: () => Account;
}

async function post(
  url: string,
  key: string,
  body: string | URLSearchParams,
): Promise<{ readonly id?: string }> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body,
  });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  const read = JSON.parse(text) as {
    readonly id?: string;
    readonly data?: { readonly id: string };
  };
  return read.data ?? read;
}

async function lago(graceDays: number): Promise<Vendor> {
  const fake = await startFakeLago({ apiKey: 'key', rules: { graceDays } });
  closers.push(() => fake.close());
  const options = lagoOptions(fake.url);
  const world = await startMonths({ settings: { type: 'lago', options }, advanceTo: fake.turnTo });
  closers.push(() => world.stop());
  for (const charge of fake.state.plans.get('tenant-standard')?.charges ?? []) {
    charge.properties = { amount: '2' };
  }
  return { ...world, account: fake.account };
}

async function stripe(graceHours: number): Promise<Vendor> {
  const key = 'sk_test_key';
  const rules = { graceSeconds: graceHours * 3_600 };
  const fake = await startFakeStripe({ apiKey: key, rules });
  closers.push(() => fake.close());
  const options = stripeOptions(fake.url, { billingDay: 1 });
  const world = await startMonths({
    settings: { type: 'stripe', options },
    advanceTo: fake.turnTo,
  });
  closers.push(() => world.stop());
  const meter = [...fake.state.meters.values()].find(({ event_name }) => event_name === METRIC);
  const price = new URLSearchParams({
    currency: 'usd',
    'product_data[name]': METRIC,
    unit_amount_decimal: '200',
    'recurring[interval]': 'month',
    'recurring[usage_type]': 'metered',
    'recurring[meter]': meter?.id ?? '',
    'metadata[vbilling_plan]': 'tenant-standard',
  });
  await post(`${fake.url}/v1/prices`, key, price);
  // Prices that were read before are believed for five minutes.
  await world.restart();
  return { ...world, account: fake.account };
}

async function metronome(): Promise<Vendor> {
  const fake = await startFakeMetronome({ apiToken: 'token' });
  closers.push(() => fake.close());
  fake.turnTo(JANUARY);
  const call = async (path: string, body: unknown): Promise<string | undefined> =>
    (await post(fake.url + path, 'token', JSON.stringify(body))).id;
  const card = await call('/v1/contract-pricing/rate-cards/create', {
    name: 'standard',
    aliases: [{ name: 'standard' }],
  });
  const options = {
    url: fake.url,
    apiToken: new Secret('token'),
    currency: 'USD',
    rateCard: 'standard',
  };
  const settings = { type: 'metronome', options } as const;
  const world = await startMonths({ settings, advanceTo: fake.turnTo });
  closers.push(() => world.stop());
  const metric = fake.state.metrics.find(({ event_type_filter }) =>
    JSON.stringify(event_type_filter).includes(`"${METRIC}"`),
  );
  const product = await call('/v1/contract-pricing/products/create', {
    name: METRIC,
    type: 'USAGE',
    billable_metric_id: metric?.id,
  });
  await call('/v1/contract-pricing/rate-cards/addRate', {
    rate_card_id: card,
    product_id: product,
    starting_at: new Date(JANUARY).toISOString(),
    entitled: true,
    rate_type: 'FLAT',
    price: 200,
  });
  return { ...world, account: fake.account };
}

/** The usage of the page: when a window began, when its usage came, and how many hours it has. */
const USAGE = [
  ['01-05T00:00', '01-05T00:02', '10'],
  ['01-20T00:00', '01-20T00:02', '5'],
  ['01-31T23:58', '02-01T00:01', '1'],
  ['01-31T23:00', '02-01T00:30', '4'],
  ['01-31T22:00', '02-01T03:00', '3'],
  ['01-31T21:00', '02-02T06:00', '2'],
  ['02-02T12:00', '02-02T12:02', '6'],
] as const;

/** The row of the page: January's invoice, and what is told to be on none. */
async function rowOf(name: string, world: Vendor): Promise<string> {
  for (const [start, at, units] of USAGE) {
    world.turnTo(at);
    await world.use(start, units);
  }
  world.turnTo('02-05T02:00');
  const report = await world.report();
  const lines = world
    .account()
    .invoices.filter(({ isFinal, from }) => isFinal && from < on('02-01T00:00'))
    .flatMap((invoice) => invoice.lines);
  const sum = (field: 'units' | 'amount'): string =>
    textOf(lines.map((line) => exact(line[field])).reduce(plus, ZERO));
  const reported = (report?.examples ?? []).map(
    ({ difference, amount, cause }) =>
      `${difference.slice(1)} hours, ${-(amount?.value ?? 0)} ${amount?.currency}: “${cause}”`,
  );
  return `| ${name} | ${sum('units')} hours, ${sum('amount')} USD | ${reported.join() || 'nothing'} |`;
}

const VENDORS: readonly (readonly [name: string, start: () => Promise<Vendor>])[] = [
  ['Lago, without a grace period', () => lago(0)],
  ['Lago, with one of three days', () => lago(3)],
  ['Stripe, an hour', () => stripe(1)],
  ['Stripe, a rule of 72 hours', () => stripe(72)],
  ['Metronome, 24 hours', metronome],
];

test.each(VENDORS)(
  '%s: the page describes the invoice of January as it is',
  async (name, start) => {
    const page = readFileSync(PAGE, 'utf8');
    expect(page).toContain(await rowOf(name, await start()));
  },
);

test('the page states the usage that it is about', () => {
  const page = readFileSync(PAGE, 'utf8');
  const written = (text: string): string =>
    `${Number(text.slice(3, 5))} ${text.startsWith('01') ? 'January' : 'February'} ${text.slice(6)}`;
  for (const [start, at, units] of USAGE) {
    expect(page).toContain(`| ${written(start)} | ${written(at)} | ${units} |`);
  }
});
