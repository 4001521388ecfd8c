import { Registry } from 'prom-client';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { type FakeMetronome, startFakeMetronome } from '../../e2e/fakes/metronome/metronome.ts';
import type { MetronomeRules } from '../../e2e/fakes/metronome/state.ts';
import { Secret } from '../model/secret.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { InvoiceWatch } from './operations/invoice-watch.ts';
import { createMonthClock } from './testing/month-clock.ts';
import { type MonthWorld, on, startMonths } from './testing/month-world.ts';

const HOUR_MS = 3_600_000;
const METRIC = 'tenant_instance_hours';
const GPU = 'tenant_gpu_hours';
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface Month extends MonthWorld {
  readonly metronome: FakeMetronome;
  readonly call: (path: string, body: unknown) => Promise<string>;
  readonly product: (metric: string) => Promise<string>;
  readonly price: (product: string, from: string) => Promise<unknown>;
}

/** A tenant on a rate card that prices instance hours at 2 dollars, on 1 January 2027. */
async function month(rules: Partial<MetronomeRules> = {}): Promise<Month> {
  const metronome = await startFakeMetronome({ apiToken: 'token', rules });
  closers.push(() => metronome.close());
  metronome.turnTo(on('01-01T00:00'));
  const call: Month['call'] = async (path, body) => {
    const answer = await fetch(metronome.url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer token' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    return (JSON.parse(text) as { readonly data: { readonly id: string } }).data?.id;
  };
  const card = await call('/v1/contract-pricing/rate-cards/create', {
    name: 'standard',
    aliases: [{ name: 'standard' }],
  });
  const options = {
    url: metronome.url,
    apiToken: new Secret('token'),
    currency: 'USD',
    rateCard: 'standard',
  };
  const world = await startMonths({
    settings: { type: 'metronome', options },
    advanceTo: metronome.turnTo,
  });
  closers.push(() => world.stop());
  const price: Month['price'] = (product, from) =>
    call('/v1/contract-pricing/rate-cards/addRate', {
      rate_card_id: card,
      product_id: product,
      starting_at: new Date(on(from)).toISOString(),
      entitled: true,
      rate_type: 'FLAT',
      price: 200,
    });
  const product = async (metric: string): Promise<string> => {
    const found = metronome.state.metrics.find(({ event_type_filter }) =>
      JSON.stringify(event_type_filter).includes(`"${metric}"`),
    );
    return call('/v1/contract-pricing/products/create', {
      name: metric,
      type: 'USAGE',
      billable_metric_id: found?.id,
    });
  };
  await price(await product(METRIC), '01-01T00:00');
  return { ...world, metronome, call, product, price };
}

describe('invoices are held against what was delivered', () => {
  test('a month that is invoiced as it was delivered is no mismatch', async () => {
    const one = await month();
    one.turnTo('01-05T00:02');
    await one.use('01-05T00:00', '10');
    one.turnTo('01-31T23:59');
    await one.use('01-31T23:58', '5');
    one.turnTo('02-02T00:01');
    await one.use('02-02T00:00', '1');
    expect(await one.report()).toMatchObject({
      tenants: 1,
      unanswered: 0,
      differing: 0,
      examples: [],
    });
    expect(one.metronome.account().invoices).toContainEqual(
      expect.objectContaining({ isFinal: true, lines: [expect.objectContaining({ units: '15' })] }),
    );
  });

  test('usage that arrives after its invoice is final is reported with its amount', async () => {
    const one = await month();
    one.turnTo('01-05T00:02');
    await one.use('01-05T00:00', '10');
    one.turnTo('02-02T06:00');
    await one.use('01-31T23:00', '4');
    const expected = {
      tenant: 'acme',
      metric: METRIC,
      difference: '-4',
      amount: { value: -8, currency: 'USD' },
      until: on('02-01T00:00'),
      cause: 'the usage arrived after its invoice was final',
    };
    expect(await one.report()).toMatchObject({ differing: 1, examples: [expected] });
    // What is known outlives the process, and the events.
    await one.restart();
    one.turnTo('02-03T00:00');
    expect(await one.report()).toMatchObject({ differing: 1, examples: [expected] });
  });

  test('usage that comes late long after its invoice was compared is reported at once', async () => {
    const one = await month();
    one.turnTo('01-20T00:02');
    await one.use('01-20T00:00', '10');
    one.turnTo('02-02T01:00');
    expect(await one.report()).toMatchObject({ tenants: 1, differing: 0 });
    one.turnTo('02-10T00:00');
    await one.use('01-25T00:00', '0.5');
    expect(await one.report()).toMatchObject({
      differing: 1,
      examples: [{ difference: '-0.5', cause: 'the usage arrived after its invoice was final' }],
    });
  });

  test('usage that nobody had priced by the time of its invoice is reported', async () => {
    const one = await month();
    one.turnTo('01-10T00:02');
    await one.use('01-10T00:00', '6', GPU);
    await one.use('01-10T00:01', '3');
    one.turnTo('01-15T00:00');
    await one.price(await one.product(GPU), '01-15T00:00');
    one.turnTo('01-20T00:02');
    await one.use('01-20T00:00', '4', GPU);
    one.turnTo('02-02T01:00');
    expect(await one.report()).toMatchObject({
      differing: 1,
      examples: [{ metric: GPU, difference: '-6', amount: { value: -12 } }],
    });
  });

  test('an invoice that is computed again makes up for late usage', async () => {
    const one = await month();
    one.turnTo('01-05T00:02');
    await one.use('01-05T00:00', '10');
    one.turnTo('02-02T06:00');
    await one.use('01-31T23:00', '4');
    expect(await one.report()).toMatchObject({ differing: 1 });
    one.turnTo('02-02T08:00');
    const id = one.metronome.account().invoices.find(({ isFinal }) => isFinal)?.id;
    await one.call('/v1/invoices/void', { id });
    await one.call('/v1/invoices/regenerate', { id });
    one.turnTo('02-02T10:00');
    expect(await one.report()).toMatchObject({ tenants: 1, differing: 0, examples: [] });
  });

  test('a change of contracts in the middle of a month is no mismatch', async () => {
    const one = await month();
    one.turnTo('01-05T00:02');
    await one.use('01-05T00:00', '10');
    const { contracts } = one.metronome.state;
    one.turnTo('01-16T09:30');
    const [first] = contracts;
    await one.call('/v1/contracts/updateEndDate', {
      customer_id: first?.customer_id,
      contract_id: first?.id,
      ending_before: new Date(on('01-16T10:00')).toISOString(),
    });
    await one.call('/v1/contracts/create', {
      customer_id: first?.customer_id,
      rate_card_id: first?.rate_card_id,
      starting_at: new Date(on('01-16T10:00')).toISOString(),
    });
    one.turnTo('01-17T12:00');
    await one.use('01-17T11:00', '2');
    expect(await one.report()).toMatchObject({ tenants: 1, differing: 0 });
    one.turnTo('02-02T02:00');
    expect(await one.report()).toMatchObject({ tenants: 1, differing: 0 });
  });
});

test('a contract that is made by hand is given way to at the next hourly look, though nothing is used', async () => {
  const one = await month();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  expect(await one.report()).toMatchObject({ differing: 0 });
  const [ours] = one.metronome.state.contracts;
  const { customer_id, rate_card_id } = ours ?? {};
  const starting_at = new Date(on('01-05T00:00')).toISOString();
  await one.call('/v1/contracts/create', { customer_id, rate_card_id, starting_at });
  one.turnTo('01-05T01:30');
  expect(await one.report()).toMatchObject({ unanswered: 0 });
  await vi.waitFor(() => expect(ours?.ending_before).toBe(starting_at));
  one.turnTo('02-02T02:00');
  expect(await one.report()).toMatchObject({ differing: 0 });
  expect(one.metronome.account().events).toMatchObject([{ lines: 1 }]);
});

test('sums that are an hour behind are no difference when a day is compared', async () => {
  const one = await month({ sumsLagSeconds: 3_600 });
  one.turnTo('01-05T23:59');
  await one.use('01-05T23:57', '10');
  const differences = async (): Promise<readonly (string | undefined)[]> => {
    const day = { from: on('01-05T00:00'), to: on('01-06T00:00') };
    const outcome = await one.delivery().reconcile('bills', day, new AbortController().signal);
    if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
    return outcome.rows.map(({ difference }) => difference);
  };
  expect(await differences()).toEqual(['-10']);
  one.turnTo('01-06T01:00');
  expect(await differences()).toEqual(['0']);
});

test('a mismatch is a metric and a line in the log, once', async () => {
  const one = await month();
  one.turnTo('01-05T00:02');
  await one.use('01-05T00:00', '10');
  one.turnTo('02-02T06:00');
  await one.use('01-31T23:00', '4');
  const registry = new Registry();
  const logger = createMemoryLogger();
  const clock = createMonthClock(on('02-02T06:00'));
  const watch = new InvoiceWatch({ delivery: one.delivery(), clock, logger, registry });
  const stopping = new AbortController();
  const running = watch.run(stopping.signal);
  await vi.waitFor(
    () => {
      clock.advanceTo(clock.now() + HOUR_MS);
      expect(one.delivery().status('bills')?.invoices?.differing).toBe(1);
      expect(logger.lines).toHaveLength(1);
    },
    { timeout: 10_000, interval: 20 },
  );
  expect(await registry.metrics()).toContain(
    'meterfeed_destination_invoice_mismatches{destination="bills"} 1',
  );
  expect(logger.lines).toEqual([
    `warn [bills] 1 sums on invoices differ from what was delivered, such as ${METRIC} of acme by -4: the usage arrived after its invoice was final`,
  ]);
  stopping.abort();
  await running;
});
