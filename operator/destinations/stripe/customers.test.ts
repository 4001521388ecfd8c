import { afterEach, expect, test } from 'vitest';
import type { FakeStripeOptions } from '../../../e2e/fakes/stripe/stripe.ts';
import { testTenant } from '../testing/context.ts';
import { createStripeWorld, NEVER, type StripeWorld } from './testing/stripe-world.ts';

const CUSTOMERS = '/v1/customers';
const DONE = { kind: 'done' };
const NEVER_INDEXED = Number.POSITIVE_INFINITY;
let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function world(options: Partial<FakeStripeOptions> = {}): Promise<StripeWorld> {
  open = await createStripeWorld(options);
  return open;
}

test('a tenant gets a customer that says whose it is', async () => {
  const { destination, stripe } = await world();
  const tenant = testTenant({ email: 'a@example.com', project: 'research', plan: 'gold' });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
  expect([...stripe.state.customers.values()]).toMatchObject([
    {
      name: 'Team A',
      email: 'a@example.com',
      metadata: {
        vbilling_tenant_id: 'tenant-vcluster-a-a',
        vbilling_region: 'eu-central-1',
        vbilling_project: 'research',
        vbilling_plan: 'gold',
      },
    },
  ]);
});

test.each([
  ['by search', {}, 200_000_000],
  ['by the list, while search lags', { searchLagMs: NEVER_INDEXED }, 3_600_000],
  ['by the list, where there is no search', { withoutSearch: true }, 200_000_000],
])('it is found again after a restart %s', async (_, options, pauseMs) => {
  const { destination, restart, stripe, time } = await world(options);
  await destination.customers.provision(testTenant(), NEVER);
  stripe.state.results.clear();
  time.now += pauseMs;
  expect(await restart().customers.provision(testTenant(), NEVER)).toStrictEqual(DONE);
  expect(stripe.state.customers.size).toBe(1);
});

test.each(['commit-then-reset', 'commit-then-status'] as const)(
  'one whose creation got no answer is not created twice: %s',
  async (kind) => {
    const { destination, stripe } = await world({ searchLagMs: NEVER_INDEXED });
    stripe.misbehaviours.add({ kind, status: 500, method: 'POST', path: CUSTOMERS, times: 1 });
    expect(await destination.customers.provision(testTenant(), NEVER)).toMatchObject({
      kind: 'retry',
    });
    expect(await destination.customers.provision(testTenant(), NEVER)).toStrictEqual(DONE);
    expect(stripe.state.customers.size).toBe(1);
  },
);

test('search that disregards case does not mix up tenants', async () => {
  const { destination, stripe } = await world();
  await destination.customers.provision(testTenant({ id: 'Team' }), NEVER);
  await destination.customers.provision(testTenant({ id: 'team' }), NEVER);
  await destination.customers.provision(testTenant({ id: "o'team\\" }), NEVER);
  expect(stripe.state.customers.size).toBe(3);
});

test('many new tenants are listed once', async () => {
  const { destination, count } = await world({ searchLagMs: NEVER_INDEXED });
  for (let index = 0; index < 5; index += 1) {
    await destination.customers.provision(testTenant({ id: `t${index}` }), NEVER);
  }
  expect(count('GET', `${CUSTOMERS}/search`)).toBe(5);
  expect(count('GET', CUSTOMERS)).toBe(6);
});

test('a renamed tenant renames its customer, and nothing is written when nothing changed', async () => {
  const { destination, stripe, count } = await world();
  await destination.customers.provision(testTenant(), NEVER);
  await destination.customers.provision(testTenant(), NEVER);
  expect(count('POST', CUSTOMERS)).toBe(1);
  await destination.customers.provision(testTenant({ displayName: 'Team B' }), NEVER);
  expect([...stripe.state.customers.values()]).toMatchObject([{ name: 'Team B' }]);
});

const ADDRESS = { line1: 'Street 1', city: 'Köln', postalCode: '50667', country: 'DE' };

test('address and tax number are those of the override, and what it leaves out stays', async () => {
  const { destination, stripe, restart, count } = await world();
  const billing = { address: ADDRESS, taxId: 'DE 123.456.789' };
  await destination.customers.provision(testTenant({ billing }), NEVER);
  const [customer] = stripe.state.customers.values();
  expect(customer).toMatchObject({
    address: { line1: 'Street 1', city: 'Köln', postal_code: '50667', country: 'DE', line2: null },
    taxIds: [{ type: 'eu_vat', value: 'DE123456789' }],
  });
  const written = count('POST', CUSTOMERS);
  const again = restart();
  await again.customers.provision(testTenant({ billing }), NEVER);
  expect(count('POST', CUSTOMERS)).toBe(written);
  await again.customers.provision(
    testTenant({ billing: { address: { line2: 'Floor 2' } } }),
    NEVER,
  );
  expect(customer?.address).toMatchObject({ line1: 'Street 1', line2: 'Floor 2', country: 'DE' });
});

test.each([
  ['whose type does not show', '12-3456789', 'its form does not show its type'],
  ['that Stripe refuses', 'DEXX', 'tax_id_invalid'],
])('a tax number %s is reported, and costs nobody the customer', async (_, taxId, reason) => {
  const { destination, stripe, context } = await world();
  const tenant = testTenant({ billing: { taxId } });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
  expect([...stripe.state.customers.values()]).toMatchObject([{ name: 'Team A', taxIds: [] }]);
  const reported = () =>
    context.logger.lines.filter((line) => line.includes('enter the tax number'));
  expect(reported()).toStrictEqual([expect.stringContaining(reason)]);
  await destination.customers.provision(tenant, NEVER);
  expect(reported()).toHaveLength(1);
});

test('a tax number whose answer was lost is given once', async () => {
  const { destination, stripe } = await world();
  const tenant = testTenant({ billing: { taxId: 'ATU12345678' } });
  await destination.customers.provision(testTenant(), NEVER);
  const [id = ''] = stripe.state.customers.keys();
  stripe.misbehaviours.add({
    kind: 'commit-then-reset',
    method: 'POST',
    path: `/v1/customers/${id}/tax_ids`,
    times: 1,
  });
  expect(await destination.customers.provision(tenant, NEVER)).toMatchObject({ kind: 'retry' });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
  expect([...stripe.state.customers.values()]).toMatchObject([{ taxIds: [{ type: 'eu_vat' }] }]);
});

test('a customer that an operator named is used, and left as it is', async () => {
  const { destination, stripe } = await world();
  await destination.customers.provision(testTenant({ id: 'other', displayName: 'Other' }), NEVER);
  const [id = ''] = stripe.state.customers.keys();
  const tenant = testTenant({ customerIds: { stripe: id } });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual(DONE);
  expect([...stripe.state.customers.values()]).toMatchObject([{ name: 'Other' }]);
});

test('a customer that does not exist costs its tenant’s delivery only', async () => {
  const { destination } = await world();
  const tenant = testTenant({ customerIds: { stripe: 'cus_bogus' } });
  expect(await destination.customers.provision(tenant, NEVER)).toStrictEqual({
    kind: 'rejected',
    reason: 'no such customer in Stripe: stripe-customer-id: "cus_bogus"',
  });
});

test('a customer that was deleted is not given back by a repeated creation', async () => {
  const { destination, stripe } = await world();
  await destination.customers.provision(testTenant(), NEVER);
  const [first] = stripe.state.customers.values();
  if (first !== undefined) first.deleted = true;
  expect(await destination.customers.provision(testTenant(), NEVER)).toStrictEqual(DONE);
  expect([...stripe.state.customers.values()].map(({ deleted }) => deleted)).toStrictEqual([
    true,
    false,
  ]);
});
