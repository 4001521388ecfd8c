import { afterEach, expect, test } from 'vitest';
import type { LagoRules } from '../../../e2e/fakes/lago/state.ts';
import { time } from '../../../e2e/fakes/vectors.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, type LagoWorld, NEVER } from './testing/lago-world.ts';

const METRIC = 'tenant_lb_hours';
const TENANT = testTenant({ createdAt: time('01T00') });
const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/**
 * Returns a tenant with 12.000000001 units in January and 3 in February. `h100` costs 5, all others
 * 2.
 */
async function used(rules: Partial<LagoRules> = {}): Promise<LagoWorld> {
  const world = await createLagoWorld({ rules });
  worlds.push(world);
  world.advanceTo(time('01T00'));
  await world.ready(TENANT);
  const plan = world.lago.state.plans.get('tenant-standard');
  for (const charge of plan?.charges ?? []) {
    charge.properties = { amount: '2' };
    charge.filters = [{ values: { sku: ['h100'] }, properties: { amount: '5' } }];
  }
  await use(world, '05T00', '10', 'h100');
  await use(world, '06T00', '2.000000001');
  world.advanceTo(time('Feb 01T01'));
  await use(world, 'Feb 01T00:30', '3');
  return world;
}

async function use(world: LagoWorld, stamp: string, quantity: string, sku?: string): Promise<void> {
  const event = testEvent({ id: stamp, windowStart: time(stamp), quantity, ...(sku && { sku }) });
  const outcomes = await world.destination.send([{ ...event, metric: METRIC }], NEVER);
  expect(outcomes).toStrictEqual([{ kind: 'delivered' }]);
}

async function invoices({ destination }: LagoWorld, since = 0) {
  const outcome = await destination.invoices.list({ tenant: TENANT, since }, NEVER);
  if (outcome?.kind !== 'invoices') throw new Error(outcome?.reason ?? 'no answer');
  const lines = outcome.invoices.map((invoice) => ({
    ...invoice,
    lines: invoice.lines.filter(({ quantity }) => quantity !== '0'),
  }));
  return { invoices: lines, open: outcome.open };
}

test('a final invoice has its usage by metric and SKU, and the running month is open', async () => {
  const world = await used();
  const [made] = world.lago.state.invoices;
  const stretch = { from: time('01T00'), to: time('Feb 01T00') };
  const { invoices: reported, open } = await invoices(world);
  expect(reported).toEqual([
    {
      id: made?.lago_id,
      number: 'LAG-0001',
      currency: 'USD',
      finalizedAt: time('Feb 01T00:10'),
      until: time('Feb 01T00'),
      lines: [
        {
          metric: METRIC,
          ...stretch,
          quantity: '10',
          amount: '50',
          sku: 'h100',
          dimensions: { sku: 'h100' },
        },
        {
          metric: METRIC,
          ...stretch,
          quantity: '2.000000001',
          amount: '4.000000002',
          dimensions: {},
        },
      ],
    },
  ]);
  expect(open).toStrictEqual([{ from: time('Feb 01T00') }]);
  expect((await invoices(world, time('Feb 01T01'))).invoices).toStrictEqual([]);
});

test('a draft is open, and one that is voided is left out', async () => {
  const world = await used({ graceDays: 3 });
  expect(await invoices(world)).toStrictEqual({
    invoices: [],
    open: [{ from: time('01T00') }, { from: time('Feb 01T00') }],
  });
  world.advanceTo(time('Feb 05T00'));
  const [made] = world.lago.state.invoices;
  expect((await invoices(world)).invoices).toHaveLength(1);
  await fetch(`${world.lago.url}/api/v1/invoices/${made?.lago_id ?? ''}/void`, {
    method: 'POST',
    headers: { authorization: 'Bearer key' },
  });
  expect((await invoices(world)).invoices).toStrictEqual([]);
});

test('a change of plan ends one invoice where the next begins', async () => {
  const world = await used();
  await world.restart({ planCode: 'b' }).bootstrap([], NEVER);
  const tenant = { ...TENANT, plan: 'b' };
  world.advanceTo(time('Feb 16T10'));
  await world.destination.customers.provision(tenant, NEVER);
  await world.destination.plans.change(tenant, time('Feb 16T10'), NEVER);
  const { invoices: made, open } = await invoices(world, time('Feb 02T00'));
  const [ended] = made;
  expect(ended?.lines).toMatchObject([{ metric: METRIC, quantity: '3', from: time('Feb 01T00') }]);
  // The start of the new plan's usage.
  expect(ended?.until).toBe(time('Feb 16T10:00:01'));
  expect(open).toStrictEqual([{ from: time('Feb 16T10:00:01') }]);
});

test('no change is made while Lago makes the invoices of a month or a week', async () => {
  const world = await createLagoWorld();
  worlds.push(world);
  const quiet = (at: string) => world.destination.plans.quietUntil(time(at));
  expect(quiet('Feb 01T00:59:59')).toBe(time('Feb 01T01'));
  expect(quiet('Feb 01T01')).toBeUndefined();
  expect(quiet('Feb 08T00:10')).toBe(time('Feb 08T01'));
  expect(quiet('Feb 09T00:10')).toBeUndefined();
});
