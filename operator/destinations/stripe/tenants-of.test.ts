import { afterEach, expect, test } from 'vitest';
import { testTenant } from '../testing/context.ts';
import { createStripeWorld, NEVER, type StripeWorld } from './testing/stripe-world.ts';

let open: StripeWorld | undefined;

afterEach(async () => {
  await open?.close();
  open = undefined;
});

test('Stripe says which tenant a customer is, also after a restart, and nothing of strangers', async () => {
  open = await createStripeWorld();
  await open.destination.customers.provision(testTenant(), NEVER);
  const [id = ''] = open.stripe.state.customers.keys();
  const destination = open.restart();
  expect(await destination.alerts.tenantsOf('stripe', id, NEVER)).toStrictEqual({
    kind: 'tenants',
    tenants: [testTenant().id],
    certain: true,
  });
  expect(await destination.alerts.tenantsOf('stripe', 'cus_other', NEVER)).toStrictEqual({
    kind: 'unknown',
  });
  expect(await destination.alerts.tenantsOf('metronome', id, NEVER)).toStrictEqual({
    kind: 'unknown',
  });
  open.stripe.misbehaviours.add({ kind: 'status', status: 500, method: 'GET', times: 1 });
  expect(await destination.alerts.tenantsOf('stripe', id, NEVER)).toMatchObject({ kind: 'failed' });
});
