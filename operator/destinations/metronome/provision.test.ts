import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type FakeStripe, startFakeStripe } from '../../../e2e/fakes/stripe/stripe.ts';
import { Secret } from '../../model/secret.ts';
import type { MetronomeSettings } from './settings.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import type { Tenant } from '../../model/tenant.ts';
import { testTenant } from '../testing/context.ts';
import {
  createMetronomeWorld,
  HOUR_MS,
  METRONOME_NOW,
  type MetronomeWorld,
  NEVER,
} from './testing/metronome-world.ts';

const ALIAS = 'tenant-vcluster-a-a';
const CUSTOMERS = '/v1/customers';
const CONTRACTS = '/v1/contracts/create';
const NINE = '2026-11-21T09:00:00.000Z';
const TEN = '2026-11-21T10:00:00.000Z';

const worlds: MetronomeWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

async function createWorld(settings: Partial<MetronomeSettings> = {}): Promise<MetronomeWorld> {
  const world = await createMetronomeWorld(settings);
  worlds.push(world);
  await world.bootstrap();
  return world;
}

/** Returns a Metronome with a rate card `standard` in US dollars, which every tenant gets. */
async function withRateCard(settings: Partial<MetronomeSettings> = {}): Promise<MetronomeWorld> {
  const world = await createWorld({ rateCard: 'standard', ...settings });
  await world.rateCard('standard');
  return world;
}

async function provision(world: MetronomeWorld, change: Partial<Tenant> = {}): Promise<void> {
  const tenant = testTenant({ billableFrom: METRONOME_NOW, ...change });
  expect(await world.destination.customers.provision(tenant, NEVER)).toEqual({ kind: 'done' });
}

async function refusal(world: MetronomeWorld, change: Partial<Tenant> = {}): Promise<string> {
  const outcome = await world.destination.customers.provision(testTenant(change), NEVER);
  expect(outcome.kind).toBe('rejected');
  return outcome.kind === 'rejected' ? outcome.reason : '';
}

describe('the customer', () => {
  test('is found by its alias, and created where there is none', async () => {
    const world = await createWorld();
    await provision(world);
    await provision(world);
    expect(world.metronome.state.customers).toMatchObject([
      { name: 'Team A', ingest_aliases: [ALIAS] },
    ]);
    expect(world.requests(CUSTOMERS).filter(({ body }) => body !== undefined)).toHaveLength(1);
    expect(world.metronome.state.contracts).toEqual([]);
  });

  test('follows a changed display name', async () => {
    const world = await createWorld();
    await provision(world);
    await provision(world, { displayName: 'Team A plus' });
    expect(world.metronome.state.customers.map(({ name }) => name)).toEqual(['Team A plus']);
  });

  test('that was created without our hearing of it is adopted', async () => {
    const world = await createWorld();
    const lost = { kind: 'commit-then-reset', method: 'POST', path: CUSTOMERS, times: 1 } as const;
    world.metronome.misbehaviours.add(lost);
    expect((await world.destination.customers.provision(testTenant(), NEVER)).kind).toBe('retry');
    await provision(world);
    expect(world.metronome.state.customers).toHaveLength(1);
  });

  test('of another process, created between search and creation, is adopted', async () => {
    const world = await createWorld();
    await world.asOperator(CUSTOMERS, { name: 'Team A', ingest_aliases: [ALIAS] });
    world.metronome.misbehaviours.add({
      kind: 'status',
      method: 'GET',
      path: CUSTOMERS,
      status: 200,
      body: { data: [], next_page: null },
      times: 1,
    });
    await provision(world);
    expect(world.metronome.state.customers).toHaveLength(1);
  });

  test('after a stored 500 is created under a new key', async () => {
    const world = await createWorld();
    const stored = {
      kind: 'status',
      method: 'POST',
      path: CUSTOMERS,
      status: 500,
      times: 1,
    } as const;
    world.metronome.misbehaviours.add(stored);
    expect((await world.destination.customers.provision(testTenant(), NEVER)).kind).toBe('retry');
    await provision(world);
    expect(world.metronome.state.customers).toHaveLength(1);
  });

  test('that is archived keeps the alias: its owner is reported', async () => {
    const world = await createWorld();
    const id = await world.asOperator(CUSTOMERS, { name: 'old', ingest_aliases: [ALIAS] });
    await world.asOperator('/v1/customers/archive', { id });
    expect(await refusal(world)).toBe(
      `an archived customer still has the ingest alias: take it from customer ${id} in Metronome: alias: "${ALIAS}"`,
    );
  });

  test('that a tenant names gets the alias and keeps its name and its other aliases', async () => {
    const world = await createWorld();
    const id = await world.asOperator(CUSTOMERS, { name: 'ACME Inc.', ingest_aliases: ['acme'] });
    await provision(world, { customerIds: { metronome: id } });
    expect(world.metronome.state.customers).toMatchObject([
      { name: 'ACME Inc.', ingest_aliases: ['acme', ALIAS] },
    ]);
  });

  test('that a tenant names and that is not there costs this tenant only', async () => {
    const world = await createWorld();
    expect(await refusal(world, { customerIds: { metronome: 'bogus' } })).toContain(
      'no such customer in Metronome: metronome-customer-id: "bogus"',
    );
  });
});

describe('the contract', () => {
  test('begins at the hour of the first usage', async () => {
    const world = await withRateCard();
    await provision(world);
    await provision(world);
    expect(world.metronome.state.contracts).toMatchObject([
      {
        rate_card_id: world.metronome.state.rateCards[0]?.id,
        starting_at: NINE,
        name: ALIAS,
        uniqueness_key: expect.stringMatching(/^meterfeed:2026-11-21T09:/),
      },
    ]);
    expect(world.metronome.state.contracts[0]?.ending_before).toBeUndefined();
  });

  test('whose answer was lost is not made twice, also not by the next process', async () => {
    const world = await withRateCard();
    world.metronome.misbehaviours.add({ kind: 'commit-then-reset', path: CONTRACTS, times: 1 });
    const tenant = testTenant({ billableFrom: METRONOME_NOW });
    expect((await world.destination.customers.provision(tenant, NEVER)).kind).toBe('retry');
    const next = world.restart();
    expect(await next.customers.provision(tenant, NEVER)).toEqual({ kind: 'done' });
    expect(world.metronome.state.contracts).toHaveLength(1);
  });

  test('has the payment term of the override, also when it changes there and back', async () => {
    const world = await withRateCard();
    const due = () => world.metronome.state.contracts.map((one) => one.net_payment_terms_days);
    for (const netTermsDays of [30, 14, 30]) {
      await provision(world, { billing: { netTermsDays } });
      expect(due()).toStrictEqual([netTermsDays]);
    }
    await provision(world);
    expect(due()).toStrictEqual([30]);
  });

  test('that was archived by hand is made again, though its key is spent', async () => {
    const world = await withRateCard();
    await provision(world);
    const [contract] = world.metronome.state.contracts;
    await world.asOperator('/v1/contracts/archive', {
      customer_id: contract?.customer_id,
      contract_id: contract?.id,
    });
    world.now += HOUR_MS * 25;
    await provision(world);
    expect(world.metronome.state.contracts.map(({ uniqueness_key }) => uniqueness_key)).toEqual([
      expect.not.stringContaining('#'),
      expect.stringMatching(/#1$/),
    ]);
  });

  test('that is archived bills nothing, also where it is listed: another one is made', async () => {
    const world = await withRateCard();
    await provision(world);
    const [contract] = world.metronome.state.contracts;
    await world.asOperator('/v1/contracts/archive', {
      customer_id: contract?.customer_id,
      contract_id: contract?.id,
    });
    world.metronome.misbehaviours.add({
      kind: 'status',
      path: '/v2/contracts/list',
      status: 200,
      body: { data: [contract] },
    });
    world.now += HOUR_MS * 25;
    await provision(world);
    expect(world.metronome.state.contracts).toMatchObject([
      { archived_at: expect.any(String) },
      { uniqueness_key: expect.stringMatching(/#1$/) },
    ]);
  });

  test('follows another rate card at a full hour, without overlap or hole', async () => {
    const world = await withRateCard();
    await provision(world);
    const premium = await world.rateCard('premium');
    await provision(world, { plan: 'premium' });
    expect(world.metronome.state.contracts).toMatchObject([
      { starting_at: NINE, ending_before: TEN },
      { starting_at: TEN, rate_card_id: premium },
    ]);
    world.now += 2 * HOUR_MS;
    await provision(world, { plan: 'premium' });
    expect(world.metronome.state.contracts).toHaveLength(2);
  });

  test('goes on where a change is taken back before its hour, and the other bills nothing', async () => {
    const world = await withRateCard();
    await provision(world);
    await world.rateCard('premium');
    await provision(world, { plan: 'premium' });
    await provision(world);
    const [first, second, ...others] = world.metronome.state.contracts;
    expect(first?.ending_before).toBeUndefined();
    expect(second?.archived_at).toBeDefined();
    expect(others).toEqual([]);
    // It is wanted again, so it is made once more.
    await provision(world, { plan: 'premium' });
    expect(world.metronome.state.contracts).toMatchObject([
      { starting_at: NINE, ending_before: TEN },
      { archived_at: expect.any(String) },
      { starting_at: TEN },
    ]);
  });

  test('is complete after a crash in the middle of a change of rate cards', async () => {
    const world = await withRateCard();
    await provision(world);
    await world.rateCard('premium');
    world.metronome.misbehaviours.add({ kind: 'reset', path: CONTRACTS, times: 1 });
    const tenant = testTenant({ plan: 'premium' });
    expect((await world.destination.customers.provision(tenant, NEVER)).kind).toBe('retry');
    world.now += 5 * HOUR_MS;
    expect(await world.restart().customers.provision(tenant, NEVER)).toEqual({ kind: 'done' });
    expect(world.metronome.state.contracts).toMatchObject([
      { starting_at: NINE, ending_before: TEN },
      { starting_at: TEN },
    ]);
  });

  test('ends when the tenant goes, and begins again when it comes back', async () => {
    const world = await withRateCard();
    await provision(world);
    expect(await world.destination.customers.offboard(testTenant(), NEVER)).toEqual({
      kind: 'done',
    });
    expect(world.metronome.state.contracts).toMatchObject([{ ending_before: TEN }]);
    expect(world.metronome.state.customers[0]?.archived_at).toBeUndefined();
    world.now += 30 * HOUR_MS;
    await provision(world, { billableFrom: world.now });
    expect(world.metronome.state.contracts).toMatchObject([
      { starting_at: NINE, ending_before: TEN },
      { starting_at: '2026-11-22T15:00:00.000Z' },
    ]);
  });

  test('goes on when the tenant is back before it has ended', async () => {
    const world = await withRateCard();
    await provision(world);
    await world.destination.customers.offboard(testTenant(), NEVER);
    await provision(world);
    expect(world.metronome.state.contracts).toHaveLength(1);
    expect(world.metronome.state.contracts[0]?.ending_before).toBeUndefined();
  });

  test('that somebody made in Metronome is used, and survives offboarding', async () => {
    const world = await withRateCard();
    const customer_id = await world.asOperator(CUSTOMERS, { name: 'A', ingest_aliases: [ALIAS] });
    const rate_card_id = await world.rateCard('negotiated');
    await world.asOperator(CONTRACTS, { customer_id, rate_card_id, starting_at: NINE });
    await provision(world);
    await world.destination.customers.offboard(testTenant(), NEVER);
    expect(world.metronome.state.contracts).toHaveLength(1);
    expect(world.metronome.state.contracts[0]?.ending_before).toBeUndefined();
    expect(world.context.logger.lines.join('\n')).toContain('was made in Metronome');
  });

  test.each([NINE, '2026-11-01T00:00:00Z'])(
    'that somebody made from %s on has all usage of ours, which is archived',
    async (starting_at) => {
      const world = await withRateCard();
      await provision(world);
      const { customer_id, rate_card_id } = world.metronome.state.contracts[0] ?? {};
      await world.asOperator(CONTRACTS, { customer_id, rate_card_id, starting_at });
      await provision(world);
      await provision(world);
      expect(world.metronome.state.contracts).toMatchObject([
        { archived_at: expect.any(String) },
        { uniqueness_key: undefined },
      ]);
    },
  );

  test('that takes ours along and has ended is followed by one of ours, after what is final', async () => {
    const world = await withRateCard();
    await provision(world);
    const { customer_id, rate_card_id } = world.metronome.state.contracts[0] ?? {};
    world.now = Date.UTC(2026, 11, 5);
    const starting_at = '2026-11-01T00:00:00Z';
    const ending_before = '2026-11-25T00:00:00Z';
    await world.asOperator(CONTRACTS, { customer_id, rate_card_id, starting_at, ending_before });
    await provision(world);
    expect(world.metronome.state.contracts).toMatchObject([
      { archived_at: expect.any(String) },
      { ending_before: '2026-11-25T00:00:00.000Z' },
      { starting_at: '2026-12-01T00:00:00.000Z' },
    ]);
  });

  test('with a credit is never archived: the double billing is reported', async () => {
    const world = await withRateCard();
    await provision(world);
    const [ours] = world.metronome.state.contracts;
    const { id: contract_id, customer_id, rate_card_id, starting_at } = ours ?? {};
    const schedule_items = [{ amount: 1_000, starting_at }];
    const add_credits = [{ access_schedule: { schedule_items } }];
    await world.asOperator('/v2/contracts/edit', { customer_id, contract_id, add_credits });
    await world.asOperator(CONTRACTS, { customer_id, rate_card_id, starting_at });
    await provision(world);
    expect(ours?.archived_at).toBeUndefined();
    expect(world.context.logger.lines.join('\n')).toContain(`contract ${ours?.id} has terms`);
  });

  test('that follows an archived one bills nothing once more that is on its final invoice', async () => {
    const world = await withRateCard();
    await provision(world);
    const [first] = world.metronome.state.contracts;
    world.now = Date.UTC(2026, 11, 5);
    const archive = { customer_id: first?.customer_id, contract_id: first?.id };
    await world.asOperator('/v1/contracts/archive', archive);
    await provision(world);
    expect(world.metronome.state.contracts).toMatchObject([
      { starting_at: NINE },
      { starting_at: '2026-12-01T00:00:00.000Z' },
    ]);
  });

  test('that somebody changed is noticed at the next read of the invoices, by one call', async () => {
    const world = await withRateCard();
    const tenant = testTenant();
    const poll = async (): Promise<unknown> => {
      const outcome = await world.destination.invoices.list({ tenant, since: 0 }, NEVER);
      return outcome?.kind === 'invoices' ? (outcome.recheck ?? false) : outcome;
    };
    const lists = () => world.requests('/v2/contracts/list').length;
    await provision(world);
    const before = lists();
    expect(await poll()).toBe(false);
    expect(lists()).toBe(before + 1);
    const [ours] = world.metronome.state.contracts;
    const end = { customer_id: ours?.customer_id, contract_id: ours?.id, ending_before: TEN };
    await world.asOperator('/v1/contracts/updateEndDate', end);
    expect([await poll(), await poll()]).toEqual([true, true]);
    await provision(world);
    expect(await poll()).toBe(false);
    const busy = { kind: 'status', path: '/v2/contracts/list', status: 429, times: 1 } as const;
    world.metronome.misbehaviours.add(busy);
    expect(await poll()).toMatchObject({ kind: 'retry' });
    // An offboarded tenant needs no contract.
    await world.destination.customers.offboard(tenant, NEVER);
    expect(await poll()).toBe(false);
  });

  test('that somebody ended is followed by one for what was used until the tenant went', async () => {
    const world = await withRateCard();
    await provision(world);
    const [ours] = world.metronome.state.contracts;
    const end = { customer_id: ours?.customer_id, contract_id: ours?.id, ending_before: TEN };
    world.now += 2 * HOUR_MS;
    await world.asOperator('/v1/contracts/updateEndDate', end);
    expect(await world.destination.customers.offboard(testTenant(), NEVER)).toEqual({
      kind: 'done',
    });
    expect(world.metronome.state.contracts).toMatchObject([
      { ending_before: TEN },
      { starting_at: TEN, ending_before: '2026-11-21T12:00:00.000Z' },
    ]);
  });

  test('for now takes the place of one for the end of the period before that has come', async () => {
    const world = await withRateCard();
    await provision(world);
    const premium = await world.rateCard('premium');
    const other = await world.rateCard('other');
    await provision(world, { plan: 'premium', planChange: 'period-end' });
    await provision(world, { plan: 'other', planChange: 'now' });
    const live = () =>
      world.metronome.state.contracts.filter(({ archived_at }) => archived_at === undefined);
    expect(live()).toMatchObject([
      { starting_at: NINE, ending_before: TEN },
      { starting_at: TEN, rate_card_id: other },
    ]);
    world.now += 24 * HOUR_MS;
    await provision(world, { plan: 'premium', planChange: 'period-end' });
    await provision(world, { plan: 'premium', planChange: 'now' });
    expect(live()).toMatchObject([
      { starting_at: NINE },
      { starting_at: TEN, ending_before: '2026-11-22T10:00:00.000Z' },
      { starting_at: '2026-11-22T10:00:00.000Z', rate_card_id: premium },
    ]);
  });

  test('on a rate card of another currency waits with that reason', async () => {
    const world = await withRateCard();
    await world.rateCard('europe', 'EUR');
    expect(await refusal(world, { plan: 'europe' })).toBe(
      'rate card "europe" is priced in EUR: currency: "USD"',
    );
    await provision(world, { plan: 'europe', currency: 'EUR' });
    expect(await refusal(world, { currency: 'EUR' })).toBe(
      'rate card "standard" is priced in USD: currency: "EUR"',
    );
  });

  test('on a rate card that is not there costs this tenant only', async () => {
    const world = await withRateCard();
    expect(await refusal(world, { plan: 'typo' })).toBe(
      'no such rate card in Metronome: plan: "typo"',
    );
  });
});

describe('the link to Stripe', () => {
  let stripe: FakeStripe;

  beforeEach(async () => {
    stripe = await startFakeStripe({ apiKey: 'sk_test_1' });
  });
  afterEach(() => stripe.close());

  const stripeLink = (): NonNullable<MetronomeSettings['stripeLink']> => ({
    url: stripe.url,
    apiKey: new Secret('sk_test_1'),
    apiVersion: '2026-09-30.endive',
    collectionMethod: 'send_invoice',
  });

  test('is on the customer and on the contract, with the collection method', async () => {
    const world = await withRateCard({ stripeLink: stripeLink() });
    await provision(world);
    await provision(world);
    const [provider] = world.metronome.state.billingProviders;
    const [customer] = stripe.state.customers.values();
    expect(stripe.state.customers.size).toBe(1);
    expect(customer).toMatchObject({ name: 'Team A', metadata: { vbilling_tenant_id: ALIAS } });
    expect(world.metronome.state.billingProviders).toMatchObject([
      {
        billing_provider: 'stripe',
        delivery_method: 'direct_to_billing_provider',
        configuration: {
          stripe_customer_id: customer?.id,
          stripe_collection_method: 'send_invoice',
        },
      },
    ]);
    expect(world.metronome.state.contracts).toMatchObject([{ billingProviderId: provider?.id }]);
  });

  test('is added to a customer and a contract from before', async () => {
    const world = await withRateCard();
    await provision(world);
    expect(world.metronome.state.contracts[0]?.billingProviderId).toBeUndefined();
    const linking = world.restart({ stripeLink: stripeLink() });
    expect(await linking.customers.provision(testTenant(), NEVER)).toEqual({ kind: 'done' });
    expect(world.metronome.state.contracts).toHaveLength(1);
    expect(world.metronome.state.contracts[0]?.billingProviderId).toBe(
      world.metronome.state.billingProviders[0]?.id,
    );
  });

  test('that an operator made to another Stripe customer stays', async () => {
    const world = await withRateCard();
    await provision(world);
    await world.asOperator('/v1/setCustomerBillingProviderConfigurations', {
      data: [
        {
          customer_id: world.metronome.state.customers[0]?.id,
          billing_provider: 'stripe',
          delivery_method: 'direct_to_billing_provider',
          configuration: { stripe_customer_id: 'cus_by_hand' },
        },
      ],
    });
    const linking = world.restart({ stripeLink: stripeLink() });
    expect(await linking.customers.provision(testTenant(), NEVER)).toEqual({ kind: 'done' });
    expect(world.metronome.state.billingProviders).toHaveLength(1);
    expect(stripe.state.customers.size).toBe(0);
  });

  test('waits while Stripe does not answer, and says who it is that does not', async () => {
    const world = await withRateCard({ stripeLink: stripeLink() });
    stripe.misbehaviours.add({ kind: 'status', status: 401 });
    const outcome = await world.destination.customers.provision(testTenant(), NEVER);
    expect(outcome).toMatchObject({ kind: 'blocked', reason: expect.stringContaining('Stripe') });
    expect(world.metronome.state.contracts).toEqual([]);
  });
});

test('a tenant’s contract that was ended in Metronome is followed by another one', async () => {
  const world = await withRateCard();
  await provision(world);
  await world.destination.customers.offboard(testTenant(), NEVER);
  world.now += 3 * HOUR_MS;
  await provision(world);
  const event = testEvent({ windowStart: world.now - HOUR_MS });
  expect(await world.destination.send([event], NEVER)).toEqual([{ kind: 'delivered' }]);
  expect(world.metronome.state.contracts).toMatchObject([
    { starting_at: NINE, ending_before: TEN },
    { starting_at: TEN },
  ]);
});
