import { afterEach, describe, expect, test } from 'vitest';
import type { LagoRules } from '../../../e2e/fakes/lago/state.ts';
import { play, type Step, summary, time, usage } from '../../../e2e/fakes/vectors.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import type { ChangeOutcome, DeliveryOutcome, ProvisionOutcome } from '../destination.ts';
import { testTenant } from '../testing/context.ts';
import { createLagoWorld, LAGO_METRICS, type LagoWorld, NEVER } from './testing/lago-world.ts';

const METRIC = 'tenant_lb_hours';
const UNTIL = time('Mar 05T00');
const worlds: LagoWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});

/** Returns a Lago where a unit costs 2 on plan `a`, the default, and 3 on `b`. */
async function priced(
  fees: readonly [a: number, b: number] = [0, 0],
  rules: Partial<LagoRules> = {},
): Promise<LagoWorld> {
  const world = await createLagoWorld({ rules }, { planCode: 'a' });
  worlds.push(world);
  world.advanceTo(time('01T00'));
  await world.bootstrap();
  await world.restart({ planCode: 'b' }).bootstrap(LAGO_METRICS, NEVER);
  for (const [code, amount, amount_cents] of [
    ['a', '2', fees[0]],
    ['b', '3', fees[1]],
  ] as const) {
    const plan = world.lago.state.plans.get(code);
    if (plan === undefined) throw new Error(`no plan ${code}`);
    for (const charge of plan.charges) charge.properties = { amount };
    world.lago.state.plans.set(code, { ...plan, amount_cents });
  }
  return world;
}

function tenantOn(plan?: string) {
  return testTenant({ createdAt: time('01T00'), plan });
}

/** Provisions like the delivery engine when no usage is under way. */
async function provision(
  { destination }: LagoWorld,
  tenant: ReturnType<typeof testTenant>,
): Promise<ProvisionOutcome | ChangeOutcome> {
  const outcome = await destination.customers.provision(tenant, NEVER);
  if (outcome.kind !== 'drain') return outcome;
  return destination.plans.change(tenant, outcome.before, NEVER) ?? outcome;
}

async function send(world: LagoWorld, stamp: number, units: string): Promise<DeliveryOutcome> {
  const event = { ...testEvent({ windowStart: stamp, quantity: units }), metric: METRIC };
  const id = `${METRIC}:${new Date(stamp).toISOString()}`;
  const [outcome] = await world.destination.send([{ ...event, id }], NEVER);
  if (outcome === undefined) throw new Error('no outcome');
  return outcome;
}

/** Plays usage at its arrival and acts at their times, and returns the bills of March. */
async function billed(
  world: LagoWorld,
  used: string,
  acts: readonly (readonly [at: string, act: () => Promise<unknown>])[],
): Promise<string> {
  const steps: Step[] = [
    ...usage(used).map(({ at, stamp, units }) => ({ at, run: () => send(world, stamp, units) })),
    ...acts.map(([at, run]) => ({ at: time(at), run })),
  ];
  await play(steps, world.advanceTo, UNTIL);
  return summary(world.lago.account());
}

describe('a change of plan', () => {
  test('with an equal base fee is made at once, and begins where Lago says', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    let changed: unknown;
    const bill = await billed(world, '05T00 10, 20T00 5', [
      ['16T10', async () => void (changed = await provision(world, tenantOn('b')))],
    ]);
    expect(changed).toEqual({ kind: 'changed', from: time('16T10:00:01') });
    expect(bill).toBe('(16) 20, Jan 15');
  });

  test('requires the usage of the old plan first, and changes nothing before', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    world.advanceTo(time('16T10'));
    expect(await world.destination.customers.provision(tenantOn('b'), NEVER)).toMatchObject({
      kind: 'drain',
      before: time('16T10'),
      current: 'a',
      wanted: 'b',
    });
    expect(world.lago.state.subscriptions).toHaveLength(1);
  });

  test('is known from its answer on: usage of the old plan is not sent in vain', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    world.advanceTo(time('16T10'));
    await provision(world, tenantOn('b'));
    expect(await send(world, time('16T09'), '1')).toMatchObject({
      kind: 'rejected',
      reason: expect.stringContaining('before the subscription began, 2027-01-16T10:00:00.000Z'),
    });
    expect(await send(world, time('16T10'), '1')).toStrictEqual({ kind: 'delivered' });
  });

  test('with grace takes usage of the old plan while its draft is there, and no longer', async () => {
    const world = await priced([0, 0], { graceDays: 3 });
    await provision(world, tenantOn());
    world.advanceTo(time('16T10'));
    await provision(world, tenantOn('b'));
    world.advanceTo(time('16T14'));
    const early = { kind: 'rejected', reason: expect.stringContaining('before the subscription') };
    world.lago.misbehaviours.add({ kind: 'status', path: '/api/v1/invoices', times: 1 });
    expect(await send(world, time('16T08'), '1')).toMatchObject({ kind: 'retry' });
    expect(await send(world, time('16T08'), '1')).toStrictEqual({ kind: 'delivered' });
    // Lago has no usage of the tenant from before its first subscription, draft or not.
    expect(await send(world, time('01T00') - 60_000, '1')).toMatchObject(early);
    expect(await send(world, time('16T10:00:00'), '1')).toStrictEqual({ kind: 'delivered' });
    // Another process has the same state.
    const restarted = { ...world, destination: world.restart() };
    await restarted.destination.bootstrap(LAGO_METRICS, NEVER);
    await restarted.destination.customers.provision(tenantOn('b'), NEVER);
    expect(await send(restarted, time('16T09'), '1')).toStrictEqual({ kind: 'delivered' });
    world.advanceTo(time('19T01'));
    expect(await send(world, time('16T07'), '1')).toMatchObject(early);
    expect(summary(world.lago.account())).toBe('(16) 6');
  });

  test('answers the same moment again when its answer was lost', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    world.advanceTo(time('16T10'));
    const tenant = tenantOn('b');
    const path = '/api/v1/subscriptions';
    world.lago.misbehaviours.add({ kind: 'commit-then-reset', method: 'POST', path, times: 1 });
    expect(await provision(world, tenant)).toMatchObject({ kind: 'retry' });
    world.advanceTo(time('16T11'));
    expect(await world.destination.plans.change(tenant, time('16T10'), NEVER)).toEqual({
      kind: 'changed',
      from: time('16T10:00:01'),
    });
  });

  test.each([
    ['the customer', 3, 0],
    ['the installation', null, 3],
  ])(
    'says until when the grace of %s bills late usage of the old plan',
    async (_, own, graceDays) => {
      const world = await priced([0, 0], { graceDays });
      await provision(world, tenantOn());
      const customer = world.lago.state.customers.get(tenantOn().id);
      if (customer !== undefined) customer.invoice_grace_period = own;
      world.advanceTo(time('16T10'));
      expect(await provision(world, tenantOn('b'))).toStrictEqual({
        kind: 'changed',
        from: time('16T10:00:01'),
        lateUntil: time('19T00'),
      });
    },
  );

  test('waits until the month before is invoiced: it would take that invoice with it', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    let early: unknown;
    const bill = await billed(world, '05T00 15', [
      ['Feb 01T00:05', async () => void (early = await provision(world, tenantOn('b')))],
      ['Feb 01T01:00', () => provision(world, tenantOn('b'))],
    ]);
    expect(early).toMatchObject({ kind: 'retry', afterMs: 55 * 60_000 });
    expect(bill).toBe('Jan 30');
  });

  test('to a lower base fee comes with the next period', async () => {
    const world = await priced([10_000, 0]);
    await provision(world, tenantOn('a'));
    const bill = await billed(world, '05T00 15, Feb 02T00 3', [
      ['16T00', () => provision(world, tenantOn('b'))],
    ]);
    expect(bill).toBe('Jan 100+30, Feb 9');
  });

  test('to a lower base fee keeps the usage of the minutes before Lago makes it', async () => {
    const world = await priced([10_000, 0]);
    await provision(world, tenantOn('a'));
    world.advanceTo(time('16T00'));
    const [tenant, before] = [tenantOn('b'), time('Feb 01T00')];
    const waits = { kind: 'drain', before, current: 'a', wanted: 'b' };
    expect(await world.destination.customers.provision(tenant, NEVER)).toMatchObject(waits);
    expect(await world.destination.customers.provision(tenant, NEVER)).toMatchObject(waits);
    world.advanceTo(time('Feb 01T00:05'));
    expect(await world.destination.plans.change(tenant, before, NEVER)).toMatchObject({
      kind: 'retry',
    });
    world.advanceTo(time('Feb 01T01'));
    const from = time('Feb 01T00:10:01');
    const changed = { kind: 'changed', from };
    expect(await world.destination.plans.change(tenant, before, NEVER)).toEqual(changed);
    // The unit of 00:05 is sent as of the change, like the delivery engine does.
    await send(world, from, '1');
    world.advanceTo(time('Mar 02T00'));
    expect(summary(world.lago.account())).toBe('Jan 100, Feb 3');
  });

  test('that waits is cancelled when it is no longer wanted', async () => {
    const world = await priced([10_000, 0]);
    await provision(world, tenantOn('a'));
    const bill = await billed(world, 'Feb 02T00 3', [
      ['16T00', () => provision(world, tenantOn('b'))],
      ['20T00', () => provision(world, tenantOn('a'))],
    ]);
    expect(bill).toBe('Jan 100, Feb 100+6');
  });

  test('that waits is left alone for a tenant that names no plan', async () => {
    const world = await priced([10_000, 0]);
    await provision(world, tenantOn('a'));
    const bill = await billed(world, 'Feb 02T00 3', [
      ['16T00', () => provision(world, tenantOn('b'))],
      ['20T00', () => provision(world, tenantOn())],
    ]);
    expect(bill).toBe('Jan 100, Feb 9');
  });

  test('that somebody made at Lago does not make the tenant unknown', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    world.advanceTo(time('16T10'));
    await send(world, time('16T09'), '1');
    await fetch(`${world.lago.url}/api/v1/subscriptions`, {
      method: 'POST',
      headers: { authorization: 'Bearer key' },
      body: JSON.stringify({
        subscription: {
          external_customer_id: tenantOn().id,
          external_id: `sub-${tenantOn().id}`,
          plan_code: 'b',
        },
      }),
    });
    world.advanceTo(time('16T12'));
    expect(await send(world, time('16T11'), '1')).toStrictEqual({ kind: 'delivered' });
  });
});

describe('an end', () => {
  test('on the billing day waits for the invoice of the month before', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    let early: unknown;
    const bill = await billed(world, '05T00 10, Feb 01T00:01 1', [
      [
        'Feb 01T00:05',
        async () => void (early = await world.destination.customers.offboard(tenantOn(), NEVER)),
      ],
      ['Feb 01T01:00', () => world.destination.customers.offboard(tenantOn(), NEVER)],
    ]);
    expect(early).toMatchObject({ kind: 'retry', afterMs: 55 * 60_000 });
    expect(bill).toBe('Jan 20, (Feb 1) 2');
  });

  test('and a return on the same day bill nothing twice', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    const bill = await billed(world, '05T00 10, 20T11 1, 20T16 2', [
      ['20T12', () => world.destination.customers.offboard(tenantOn(), NEVER)],
      ['20T15', () => provision(world, testTenant({ createdAt: time('20T09') }))],
    ]);
    expect(bill).toBe('(20) 22, Jan 4');
  });

  test('that was not invoiced leaves its usage to the return', async () => {
    const world = await priced();
    await provision(world, tenantOn());
    const end = (): Promise<unknown> =>
      fetch(
        `${world.lago.url}/api/v1/subscriptions/sub-${tenantOn().id}?on_termination_invoice=skip`,
        { method: 'DELETE', headers: { authorization: 'Bearer key' } },
      );
    const bill = await billed(world, '05T00 10, 20T16 2', [
      ['20T12', end],
      ['20T15', () => provision(world, tenantOn())],
    ]);
    expect(bill).toBe('Jan 24');
  });
});

describe('a start', () => {
  test('reaches back no further than the month that Lago has yet to invoice', async () => {
    const world = await priced();
    const late: DeliveryOutcome[] = [];
    const bill = await billed(world, '', [
      ['Feb 03T10', () => provision(world, testTenant({ createdAt: time('30T00') }))],
      [
        'Feb 03T11',
        async () => {
          late.push(await send(world, time('30T00'), '2'));
          late.push(await send(world, time('Feb 02T00'), '5'));
        },
      ],
    ]);
    expect(bill).toBe('Feb 10');
    expect(late).toMatchObject([
      { kind: 'rejected', reason: expect.stringContaining('one-off invoice') },
      { kind: 'delivered' },
    ]);
  });

  test.each([
    ['America/New_York', 'Feb 01T04', '2027-01-01T05:00:00.000Z'],
    ['Asia/Tokyo', '31T16', '2027-01-31T15:00:00.000Z'],
  ])('knows that a month begins later or earlier in %s', async (timezone, at, start) => {
    const world = await priced();
    world.lago.state.customers.clear();
    await fetch(`${world.lago.url}/api/v1/customers`, {
      method: 'POST',
      headers: { authorization: 'Bearer key' },
      body: JSON.stringify({ customer: { external_id: tenantOn().id, timezone } }),
    });
    world.advanceTo(time(at));
    await provision(world, testTenant({ createdAt: Date.UTC(2026, 10, 1) }));
    expect(world.lago.state.subscriptions[0]?.started_at).toBe(start);
  });
});

test('what came twice to a Lago with ClickHouse is counted once, as on its invoice', async () => {
  const world = await createLagoWorld({ store: 'clickhouse' });
  worlds.push(world);
  await world.ready();
  const at = Date.UTC(2026, 10, 21, 9);
  await send(world, at, '5');
  await send(world, at, '5');
  const day = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
  const query = { tenant: testTenant(), metric: METRIC, ...day };
  expect(await world.destination.sums.total(query, NEVER)).toStrictEqual({
    kind: 'total',
    quantity: '5',
  });
});
