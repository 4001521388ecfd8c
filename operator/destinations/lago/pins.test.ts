import { afterEach, describe, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, LAGO_NOW, type LagoWorld, NEVER } from './testing/lago-world.ts';

const DONE = { kind: 'done' };
const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/** Returns a Lago where a person made customer `acme-ltd` with the subscription `contract-7`. */
async function estate(): Promise<LagoWorld> {
  const world = await createLagoWorld();
  worlds.push(world);
  await world.bootstrap();
  const make = (path: string, body: unknown): Promise<unknown> =>
    fetch(`${world.lago.url}/api/v1/${path}`, {
      method: 'POST',
      headers: { authorization: 'Bearer key' },
      body: JSON.stringify(body),
    });
  const customer = { external_id: 'acme-ltd', name: 'Acme Ltd', currency: 'USD' };
  await make('customers', { customer });
  const subscription_at = new Date(LAGO_NOW - 86_400_000).toISOString();
  const subscription = {
    external_customer_id: 'acme-ltd',
    external_id: 'contract-7',
    plan_code: 'tenant-standard',
    subscription_at,
  };
  await make('subscriptions', { subscription });
  return world;
}

const pinned = testTenant({ customerIds: { lago: 'acme-ltd' } });
const subscribed = { ...pinned, subscriptionIds: { lago: 'contract-7' } };

describe('a customer that exists already', () => {
  test('is used as it is, with a subscription of the tenant', async () => {
    const { destination, lago } = await estate();
    expect(await destination.customers.provision(pinned, NEVER)).toStrictEqual(DONE);
    expect([...lago.state.customers.values()]).toMatchObject([{ name: 'Acme Ltd', email: null }]);
    expect(lago.state.subscriptions.at(-1)).toMatchObject({
      external_customer_id: 'acme-ltd',
      external_id: `sub-${pinned.id}`,
    });
  });

  test('is reported when it is not there', async () => {
    const { destination } = await estate();
    const tenant = { ...pinned, customerIds: { lago: 'nobody' } };
    expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual({
      kind: 'rejected',
      reason: 'no such customer in Lago: lago-customer-id: "nobody"',
    });
  });

  test('is not that of another tenant', async () => {
    const { destination, lago } = await estate();
    await destination.customers.provision(testTenant({ id: 'victim' }), NEVER);
    const thief = testTenant({ id: 'thief', customerIds: { lago: 'victim' } });
    expect(await destination.customers.provision(thief, NEVER)).toStrictEqual({
      kind: 'rejected',
      reason: 'the customer of another tenant: lago-customer-id: "victim"',
    });
    expect(lago.state.subscriptions).toHaveLength(2);
  });
});

describe('a subscription that exists already', () => {
  test('gets the usage, and is neither changed nor ended', async () => {
    const { destination, lago } = await estate();
    const tenant = { ...subscribed, plan: 'gold', currency: 'EUR' };
    expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
    expect(await destination.send([testEvent({ tenant: tenant.id })], NEVER)).toStrictEqual([
      { kind: 'delivered' },
    ]);
    expect([...lago.state.events.values()]).toMatchObject([
      { external_subscription_id: 'contract-7' },
    ]);
    expect(await destination.customers.offboard(tenant, NEVER)).toStrictEqual(DONE);
    expect(lago.state.subscriptions).toMatchObject([
      { external_id: 'contract-7', plan_code: 'tenant-standard', status: 'active' },
    ]);
  });

  test('is read back by its own name', async () => {
    const { destination } = await estate();
    await destination.customers.provision(subscribed, NEVER);
    const event = testEvent({ tenant: subscribed.id, quantity: '5' });
    await destination.send([event], NEVER);
    const day = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
    const query = { tenant: subscribed, metric: event.metric, ...day };
    expect(await destination.sums.total(query, NEVER)).toMatchObject({ quantity: '5' });
  });

  test.each([
    [{ lago: 'acme-ltd' }, 'contract-8'],
    [undefined, 'contract-7'],
  ])('is reported when it is not that of the customer: %j %s', async (customerIds, id) => {
    const { destination } = await estate();
    const { customerIds: _, ...tenant } = pinned;
    const given = { ...tenant, ...(customerIds && { customerIds }), subscriptionIds: { lago: id } };
    expect(await destination.customers.provision(given, NEVER)).toStrictEqual({
      kind: 'rejected',
      reason: `customer "${customerIds?.lago ?? tenant.id}" has no such active subscription in Lago: lago-subscription-id: "${id}"`,
    });
  });
});

test('address, tax number, time zone and terms are those of the override, and what it leaves out stays', async () => {
  const { destination, lago } = await estate();
  const billing = {
    address: { line1: 'Street 1', city: 'Köln', postalCode: '50667', country: 'DE' },
    taxId: 'DE123456789',
    timeZone: 'Europe/Berlin',
    netTermsDays: 30,
  };
  await destination.customers.provision(testTenant({ billing }), NEVER);
  const reported = {
    address_line1: 'Street 1',
    city: 'Köln',
    zipcode: '50667',
    country: 'DE',
    tax_identification_number: 'DE123456789',
    timezone: 'Europe/Berlin',
    net_payment_term: 30,
  };
  expect(lago.state.customers.get(testTenant().id)).toMatchObject(reported);
  await destination.customers.provision(testTenant({ billing: { netTermsDays: 14 } }), NEVER);
  expect(lago.state.customers.get(testTenant().id)).toMatchObject({
    ...reported,
    net_payment_term: 14,
  });
});
