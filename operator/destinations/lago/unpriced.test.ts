import { expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, NEVER } from './testing/lago-world.ts';

test('usage under a SKU that nobody has priced is reported, until it is priced', async () => {
  const world = await createLagoWorld();
  await world.ready(testTenant());
  const gpu = (sku: string) => ({
    ...testEvent({ id: `gpu-${sku}`, sku }),
    metric: 'tenant_gpu_hours',
  });
  const charge = world.lago.state.plans
    .get('tenant-standard')
    ?.charges.find(({ code }) => code === 'tenant_gpu_hours');
  if (charge === undefined) throw new Error('no charge');
  charge.filters = [{ values: { sku: ['h100'] }, properties: { amount: '10' } }];
  const later = world.restart();
  await later.bootstrap([], NEVER);
  await later.customers.provision(testTenant(), NEVER);
  await later.send([gpu('h100'), gpu('a100')], NEVER);
  expect(later.prices.unpriced()).toStrictEqual([
    { plan: 'tenant-standard', metric: 'tenant_gpu_hours', sku: 'a100' },
  ]);

  charge.properties = { amount: '0.5' };
  const last = world.restart();
  await last.bootstrap([], NEVER);
  await last.customers.provision(testTenant(), NEVER);
  await last.send([gpu('a100')], NEVER);
  expect(last.prices.unpriced()).toStrictEqual([]);
  await world.close();
});

test('finance looks for a price of GPU utilisation, which is charged nowhere', async () => {
  const world = await createLagoWorld();
  await world.ready(testTenant());
  const events = ['tenant_gpu_utilization', 'tenant_gpu_hours'].map((metric) => ({
    ...testEvent({ id: metric }),
    metric,
  }));
  await world.destination.send(events, NEVER);
  expect(world.destination.prices.unpriced().map(({ metric }) => metric)).toStrictEqual([
    'tenant_gpu_hours',
  ]);
  await world.close();
});
