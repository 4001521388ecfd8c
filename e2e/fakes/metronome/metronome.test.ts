import Metronome from '@metronome/sdk';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type FakeMetronome, startFakeMetronome } from './metronome.ts';
import { invoiceItems } from './usage.ts';
import { alert, lifecycle, signWebhook } from './webhooks.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START = Date.UTC(2026, 10, 21, 9, 0, 0);
const SECRET = 'correct-horse-battery-staple';

let now: number;
let metronome: FakeMetronome;
let client: Metronome;

beforeEach(async () => {
  now = START;
  metronome = await startFakeMetronome({ apiToken: 'token', now: () => now });
  client = sdk();
});
afterEach(() => metronome.close());

function sdk(bearerToken = 'token'): Metronome {
  return new Metronome({
    bearerToken,
    webhookSecret: SECRET,
    baseURL: metronome.url,
    maxRetries: 0,
    logLevel: 'off',
  });
}

const KEYS = ['region', 'sku'];

async function gpuMetric(keys: readonly string[] = KEYS): Promise<string> {
  const { data } = await client.v1.billableMetrics.create({
    name: 'GPU hours [tenant_gpu_hours]',
    aggregation_type: 'SUM',
    aggregation_key: 'value',
    event_type_filter: { in_values: ['tenant_gpu_hours'] },
    property_filters: ['value', ...keys].map((name) => ({ name, exists: true })),
    group_keys: [[...keys]],
  });
  return data.id;
}

async function customer(alias: string): Promise<string> {
  const { data } = await client.v1.customers.create({ name: alias, ingest_aliases: [alias] });
  return data.id;
}

function event(id: string, change: Partial<Metronome.V1.UsageIngestParams.Usage> = {}) {
  return {
    transaction_id: id,
    customer_id: 'tenant-a',
    event_type: 'tenant_gpu_hours',
    timestamp: new Date(START - HOUR_MS).toISOString(),
    properties: { value: '0.25', region: 'eu', sku: 'H100' },
    ...change,
  };
}

async function dayOf(customerId: string): Promise<readonly (number | null)[]> {
  const midnight = Math.floor(START / DAY_MS) * DAY_MS;
  const values: (number | null)[] = [];
  for await (const row of client.v1.usage.list({
    starting_on: new Date(midnight).toISOString(),
    ending_before: new Date(midnight + DAY_MS).toISOString(),
    window_size: 'NONE',
    customer_ids: [customerId],
  })) {
    values.push(row.value);
  }
  return values;
}

describe('what the vendor’s own client sees', () => {
  test('usage counts for a metric that was there first, whether or not the customer was', async () => {
    await client.v1.usage.ingest({ usage: [event('early')] });
    now += 1;
    await gpuMetric();
    await client.v1.usage.ingest({ usage: [event('one'), event('two')] });
    const id = await customer('tenant-a');
    expect(await dayOf(id)).toEqual([0.5]);
  });

  test('an event without one of a metric’s keys silently counts for nothing', async () => {
    await gpuMetric();
    const id = await customer('tenant-a');
    const properties = { value: '1', region: 'eu' };
    await client.v1.usage.ingest({ usage: [event('one', { properties })] });
    expect(await dayOf(id)).toEqual([null]);
    const [found] = await client.v1.usage.search({ transactionIds: ['one'] });
    expect(found).toMatchObject({ matched_customer: { id }, matched_billable_metrics: [] });
  });

  test('an id is known for 34 days and counts again after them', async () => {
    await gpuMetric();
    await customer('tenant-a');
    await client.v1.usage.ingest({ usage: [event('one')] });
    now += 34 * DAY_MS - 1;
    const later = { timestamp: new Date(now).toISOString() };
    await client.v1.usage.ingest({ usage: [event('one', later)] });
    expect([metronome.state.events.length, metronome.state.repeats]).toEqual([1, 1]);
    now += 1;
    await client.v1.usage.ingest({ usage: [event('one', later)] });
    expect(metronome.state.events).toHaveLength(2);
  });

  test.each([
    ['older than 34 days', { timestamp: new Date(START - 34 * DAY_MS - 1).toISOString() }],
    ['more than a day ahead', { timestamp: new Date(START + DAY_MS + 1).toISOString() }],
    ['an id that is too long', { transaction_id: 'x'.repeat(129) }],
    ['no time', { timestamp: 'yesterday' }],
  ])('one bad event refuses the call and does not say which: %s', async (_, change) => {
    await expect(
      client.v1.usage.ingest({ usage: [event('good'), event('bad', change)] }),
    ).rejects.toMatchObject({ status: 400, message: expect.not.stringMatching(/bad|\[1\]/) });
    expect(metronome.state.events).toEqual([]);
  });

  test('a call takes 1 to 100 events', async () => {
    for (const count of [0, 101]) {
      const usage = Array.from({ length: count }, (_, index) => event(`e${index}`));
      await expect(client.v1.usage.ingest({ usage })).rejects.toMatchObject({ status: 400 });
    }
  });

  test('a token that is wrong is refused', async () => {
    const stranger = sdk('other');
    await expect(stranger.v1.usage.ingest({ usage: [event('one')] })).rejects.toMatchObject({
      status: 401,
    });
  });

  test('an alias stays taken by an archived customer', async () => {
    const id = await customer('tenant-a');
    await client.v1.customers.archive({ id });
    await expect(customer('tenant-a')).rejects.toMatchObject({ status: 409 });
    const listed = await client.v1.customers.list({ ingest_alias: 'tenant-a' });
    expect(listed.data).toEqual([]);
    const archived = await client.v1.customers.list({
      ingest_alias: 'tenant-a',
      only_archived: true,
    });
    expect(archived.data.map((one) => one.id)).toEqual([id]);
  });

  test('lists are cut by a cursor in the query', async () => {
    for (let number = 0; number < 5; number += 1) await customer(`tenant-${number}`);
    const names: string[] = [];
    for await (const one of client.v1.customers.list({ limit: 2 })) names.push(one.name);
    expect(names).toEqual(['tenant-0', 'tenant-1', 'tenant-2', 'tenant-3', 'tenant-4']);
    expect(metronome.requests.filter(({ method }) => method === 'GET')).toHaveLength(3);
  });

  test('usage is requested in full UTC days', async () => {
    const requested = client.v1.usage.list({
      starting_on: new Date(START).toISOString(),
      ending_before: new Date(START + DAY_MS).toISOString(),
      window_size: 'NONE',
    });
    await expect(requested).rejects.toMatchObject({ status: 400 });
  });
});

describe('prices and contracts', () => {
  async function rateCard(): Promise<string> {
    const { data } = await client.v1.contracts.rateCards.create({
      name: 'Standard',
      aliases: [{ name: 'standard' }],
    });
    return data.id;
  }

  test('a product’s keys are one group key of its metric, and change on full hours only', async () => {
    const metric = await gpuMetric();
    const product = {
      name: 'GPU',
      type: 'USAGE' as const,
      billable_metric_id: metric,
      pricing_group_key: ['sku'],
    };
    await expect(client.v1.contracts.products.create(product)).rejects.toMatchObject({
      status: 400,
    });
    const { data } = await client.v1.contracts.products.create({
      ...product,
      presentation_group_key: ['region'],
    });
    const other = await gpuMetric([...KEYS, 'tenant_cluster']);
    const update = {
      product_id: data.id,
      billable_metric_id: other,
      presentation_group_key: ['region', 'tenant_cluster'],
    };
    const askew = new Date(START + 1).toISOString();
    await expect(
      client.v1.contracts.products.update({ ...update, starting_at: askew }),
    ).rejects.toMatchObject({ status: 400 });
    await client.v1.contracts.products.update({
      ...update,
      starting_at: new Date(START + HOUR_MS).toISOString(),
    });
    const current = async () => (await client.v1.contracts.products.list()).data[0]?.current;
    expect((await current())?.billable_metric_id).toBe(metric);
    now += HOUR_MS;
    expect((await current())?.billable_metric_id).toBe(other);
  });

  test('rates are reported by card, product and group values', async () => {
    const metric = await gpuMetric();
    const { data: product } = await client.v1.contracts.products.create({
      name: 'GPU',
      type: 'USAGE',
      billable_metric_id: metric,
      pricing_group_key: ['sku'],
      presentation_group_key: ['region'],
    });
    const card = await rateCard();
    await client.v1.contracts.rateCards.rates.add({
      rate_card_id: card,
      product_id: product.id,
      starting_at: new Date(START).toISOString(),
      entitled: true,
      rate_type: 'FLAT',
      price: 250,
      pricing_group_values: { sku: 'H100' },
    });
    const rates = await client.v1.contracts.rateCards.rates.list({
      rate_card_id: card,
      at: new Date(START).toISOString(),
    });
    expect(rates.data).toMatchObject([
      { product_id: product.id, pricing_group_values: { sku: 'H100' }, rate: { price: 250 } },
    ]);
    const cards = await client.v1.contracts.rateCards.list({ body: {} });
    expect(cards.data[0]).toMatchObject({ id: card, fiat_credit_type: { name: 'USD (cents)' } });
  });

  test('a rate takes the place of the one before, with tiers too, and its card says whose it is', async () => {
    const { data: product } = await client.v1.contracts.products.create({
      name: 'GPU',
      type: 'USAGE',
      billable_metric_id: await gpuMetric(),
      pricing_group_key: ['sku'],
      presentation_group_key: ['region'],
    });
    const { data: card } = await client.v1.contracts.rateCards.create({
      name: 'gold',
      aliases: [{ name: 'gold' }],
      description: 'managed by meterfeed',
    });
    const own = { product_id: product.id, entitled: true };
    const tiers = [{ price: 0, size: 10 }, { price: 250 }];
    const at = (hours: number): string => new Date(START + hours * HOUR_MS).toISOString();
    await client.v1.contracts.rateCards.rates.addMany({
      rate_card_id: card.id,
      rates: [
        { ...own, starting_at: at(0), rate_type: 'FLAT', price: 200 },
        { ...own, starting_at: at(1), rate_type: 'TIERED', tiers },
        { ...own, starting_at: at(2), entitled: false, rate_type: 'FLAT', price: 0 },
      ],
    });
    const ratesAt = async (hours: number) =>
      (await client.v1.contracts.rateCards.rates.list({ rate_card_id: card.id, at: at(hours) }))
        .data;
    expect(await ratesAt(0)).toMatchObject([{ rate: { rate_type: 'FLAT', price: 200 } }]);
    expect(await ratesAt(1)).toMatchObject([{ rate: { rate_type: 'TIERED', tiers } }]);
    expect(await ratesAt(2)).toMatchObject([{ entitled: false }]);
    const cards = await client.v1.contracts.rateCards.list({ body: {} });
    expect(cards.data.at(-1)).toMatchObject({ description: 'managed by meterfeed' });
  });

  test('a contract wants the customer’s id, and its key is spent for ever', async () => {
    const id = await customer('tenant-a');
    const rate_card_id = await rateCard();
    const contract = {
      customer_id: id,
      rate_card_id,
      starting_at: new Date(START).toISOString(),
      uniqueness_key: 'key',
    };
    await expect(
      client.v1.contracts.create({ ...contract, customer_id: 'tenant-a' }),
    ).rejects.toMatchObject({ status: 400 });
    const { data } = await client.v1.contracts.create(contract);
    await client.v1.contracts.archive({
      customer_id: id,
      contract_id: data.id,
      void_invoices: false,
    });
    await expect(client.v1.contracts.create(contract)).rejects.toMatchObject({ status: 409 });
    const listed = await client.v2.contracts.list({ customer_id: id });
    expect(listed.data).toEqual([]);
  });

  test('two contracts at a time bill usage twice, and none bills it never', async () => {
    await gpuMetric();
    const id = await customer('tenant-a');
    const rate_card_id = await rateCard();
    await client.v1.usage.ingest({ usage: [event('one')] });
    expect(invoiceItems(metronome.state)).toHaveLength(0);
    const from = new Date(START - HOUR_MS).toISOString();
    const { data } = await client.v1.contracts.create({
      customer_id: id,
      rate_card_id,
      starting_at: from,
    });
    await client.v1.contracts.create({ customer_id: id, rate_card_id, starting_at: from });
    expect(invoiceItems(metronome.state)).toHaveLength(2);
    await client.v1.contracts.updateEndDate({
      customer_id: id,
      contract_id: data.id,
      ending_before: new Date(START).toISOString(),
    });
    expect(invoiceItems(metronome.state)).toHaveLength(2);
  });

  test('invoices go to Stripe only where customer and contract both say so', async () => {
    const id = await customer('tenant-a');
    const rate_card_id = await rateCard();
    const { data } = await client.v1.contracts.create({
      customer_id: id,
      rate_card_id,
      starting_at: new Date(START).toISOString(),
    });
    const link = {
      customer_id: id,
      contract_id: data.id,
      add_billing_provider_configuration_update: {
        billing_provider_configuration: {
          billing_provider: 'stripe' as const,
          delivery_method: 'direct_to_billing_provider' as const,
        },
        schedule: { effective_at: 'START_OF_CURRENT_PERIOD' as const },
      },
    };
    await expect(client.v2.contracts.edit(link)).rejects.toMatchObject({ status: 400 });
    await client.v1.customers.setBillingConfigurations({
      data: [
        {
          customer_id: id,
          billing_provider: 'stripe',
          delivery_method: 'direct_to_billing_provider',
          configuration: {
            stripe_customer_id: 'cus_1',
            stripe_collection_method: 'charge_automatically',
          },
        },
      ],
    });
    await client.v2.contracts.edit(link);
    const [contract] = (await client.v2.contracts.list({ customer_id: id })).data;
    expect(contract?.customer_billing_provider_configuration).toMatchObject({
      configuration: { stripe_customer_id: 'cus_1' },
    });
  });
});

describe('what a key for repeated calls gives', () => {
  const options = { headers: { 'Idempotency-Key': 'one' } };

  test('the first answer again, and a conflict for another request', async () => {
    const first = await client.v1.customers.create({ name: 'a', ingest_aliases: ['a'] }, options);
    const again = await client.v1.customers.create({ name: 'a', ingest_aliases: ['a'] }, options);
    expect(again).toEqual(first);
    await expect(client.v1.customers.create({ name: 'b' }, options)).rejects.toMatchObject({
      status: 409,
    });
    now += DAY_MS;
    await expect(
      client.v1.customers.create({ name: 'a', ingest_aliases: ['a'] }, options),
    ).rejects.toMatchObject({ status: 409 });
  });

  test('a stored 500 again, although all is well by then', async () => {
    metronome.misbehaviours.add({ kind: 'status', status: 500, times: 1 });
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await expect(client.v1.customers.create({ name: 'a' }, options)).rejects.toMatchObject({
        status: 500,
      });
    }
    const fresh = await client.v1.customers.create(
      { name: 'a' },
      { headers: { 'Idempotency-Key': 'two' } },
    );
    expect(fresh.data.name).toBe('a');
  });
});

test('the vendor’s client reads how the alerts of a customer stand, those that are enabled', async () => {
  const id = await customer('tenant-a');
  const alert = {
    id: 'a1e47000-0000-4000-8000-000000000001',
    name: 'Spend',
    type: 'spend_threshold_reached',
    status: 'enabled',
    threshold: 10_000,
    updated_at: '2026-11-01T00:00:00Z',
  } as const;
  metronome.state.alerts.push(
    { customer_id: id, alert, customer_status: 'in_alarm' },
    { customer_id: id, alert: { ...alert, status: 'archived' }, customer_status: 'ok' },
    { customer_id: 'another', alert, customer_status: 'ok' },
  );
  const found = [];
  for await (const one of client.v1.customers.alerts.list({ customer_id: id })) found.push(one);
  expect(found).toMatchObject([{ alert, customer_status: 'in_alarm' }]);
});

test('the vendor’s client finds the signature of both shapes of webhooks right', () => {
  const at = new Date();
  for (const payload of [
    alert('evt-1', 'spend_threshold_reached', 'c1', at),
    lifecycle('evt-2', 'contract.start', 'c1', at),
  ]) {
    const { headers, body } = signWebhook(SECRET, payload, at);
    expect(() => client.webhooks.verifySignature(body, headers, SECRET)).not.toThrow();
    expect(() => client.webhooks.verifySignature(`${body} `, headers, SECRET)).toThrow(
      /signature/i,
    );
  }
});
