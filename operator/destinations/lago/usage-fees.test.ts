import { afterEach, describe, expect, test } from 'vitest';
import { time } from '../../../e2e/fakes/vectors.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, type LagoWorld, NEVER } from './testing/lago-world.ts';
import { usageFees } from './usage-fees.ts';

const METRIC = 'tenant_lb_hours';
const TENANT = testTenant({ createdAt: time('01T00') });
const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/** Returns a fee as Lago shows it, of January by default. */
function fee(charge: string, amount: number, more: Record<string, unknown> = {}) {
  return {
    lago_id: `${charge}-${amount}`,
    lago_charge_id: charge,
    lago_subscription_id: 'one',
    lago_true_up_parent_fee_id: null,
    external_subscription_id: 'sub',
    item: { type: 'charge', code: 'g' },
    units: '15.0',
    precise_amount: amount,
    from_date: '2027-01-01T00:00:00+00:00',
    to_date: '2027-01-31T23:59:59+00:00',
    ...more,
  };
}

const february = { from_date: '2027-02-01T00:00:00+00:00', to_date: '2027-02-28T23:59:59+00:00' };

/** Returns the ids of the fees that count, of invoices with these fees. */
function taken(...invoices: readonly (readonly object[])[]): readonly string[] {
  const all = invoices.map((fees) => ({ invoice_type: 'subscription', fees }));
  return usageFees(all, 'sub').flatMap(({ fees }) => fees.map((one) => String(one['lago_id'])));
}

describe('of the charges of a metric', () => {
  test('one that costs nothing is left out beside one that costs something', () => {
    expect(taken([fee('a', 0), fee('b', 30)])).toStrictEqual(['b-30']);
    expect(taken([fee('b', 30), fee('a', 0)])).toStrictEqual(['b-30']);
  });

  test('all fees of one are taken where any of them costs something', () => {
    const item = { type: 'charge', code: 'g', filters: { sku: ['h100'] } };
    expect(taken([fee('a', 0), fee('b', 0), fee('b', 5, { item })])).toStrictEqual(['b-0', 'b-5']);
  });

  test('one of those is taken that all cost nothing', () => {
    expect(taken([fee('b', 0), fee('a', 0), fee('c', 0)])).toStrictEqual(['a-0']);
  });

  test('two that cost something bill usage twice, and are both taken', () => {
    expect(taken([fee('a', 30), fee('b', 45)])).toStrictEqual(['a-30', 'b-45']);
  });

  test('those of other times, subscriptions and metrics say nothing of it', () => {
    const fees = [
      fee('a', 0),
      fee('b', 30, february),
      fee('c', 20, { lago_subscription_id: 'two' }),
      fee('d', 10, { item: { type: 'charge', code: 'h' } }),
    ];
    expect(taken(fees)).toStrictEqual(['a-0', 'b-30', 'c-20', 'd-10']);
  });

  test('one that is paid in advance is on invoices of its own, and masks that of 0 on the month’s', () => {
    const advance = { pay_in_advance: true };
    expect(taken([fee('a', 0)], [fee('b', 12, advance)], [fee('b', 18, advance)])).toStrictEqual([
      'b-12',
      'b-18',
    ]);
  });
});

test('what is no usage is left out: minimums, base fees, add-ons, other subscriptions', () => {
  const fees = [
    fee('a', 30),
    fee('a', 70, { lago_true_up_parent_fee_id: 'a-30', units: '1.0' }),
    fee('', 100, { item: { type: 'commitment', code: 'plan' } }),
    fee('', 10, { item: { type: 'subscription', code: 'plan' } }),
    fee('b', 30, { external_subscription_id: 'sub-of-another' }),
  ];
  expect(taken(fees)).toStrictEqual(['a-30']);
});

test('usage so far that a threshold had invoiced is on the invoice of its period too', () => {
  const progressive = { invoice_type: 'progressive_billing', fees: [fee('a', 20)] };
  const periodic = { invoice_type: 'subscription', fees: [fee('a', 30)] };
  expect(usageFees([periodic, progressive], 'sub')).toStrictEqual([
    { invoice: periodic, fees: periodic.fees },
  ]);
});

test('late usage costs what the charge costs that somebody has added, not the 0 beside it', async () => {
  const world = await createLagoWorld();
  worlds.push(world);
  world.advanceTo(time('01T00'));
  await world.ready(TENANT);
  const { plans } = world.lago.state;
  const plan = plans.get('tenant-standard');
  const own = plan?.charges.find(({ billable_metric_code }) => billable_metric_code === METRIC);
  if (plan === undefined || own === undefined) throw new Error('no charge');
  const added = { ...own, lago_id: 'added', code: 'by_hand', properties: { amount: '2' } };
  const thresholds = [{ amount_cents: 1_000, recurring: true }] as const;
  plans.set(plan.code, {
    ...plan,
    charges: [...plan.charges, added],
    usage_thresholds: thresholds,
  });
  const event = { ...testEvent({ id: 'used', windowStart: time('05T00') }), metric: METRIC };
  const used = { ...event, quantity: '10' as typeof event.quantity };
  expect(await world.destination.send([used], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
  world.advanceTo(time('Feb 01T01'));
  const late = { ...testEvent({ id: 'late', windowStart: time('20T00') }), metric: METRIC };
  const [threshold, periodic] = world.lago.state.invoices;
  expect(threshold?.type).toBe('progressive_billing');
  const [priced] = (await world.destination.late?.price(TENANT, [late], NEVER)) ?? [];
  expect(priced).toMatchObject({
    kind: 'priced',
    price: { each: '2', currency: 'USD', invoice: periodic?.lago_id },
  });
});
