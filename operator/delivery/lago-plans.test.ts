import { afterEach, expect, test, vi } from 'vitest';
import { type FakeLago, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { summary, time } from '../../e2e/fakes/vectors.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { Secret } from '../model/secret.ts';
import type { Tenant } from '../model/tenant.ts';
import { tenantNamed } from './testing/harness.ts';
import { startLiveDelivery } from './testing/live-delivery.ts';
import { createMonthClock } from './testing/month-clock.ts';

const METRIC = 'tenant_lb_hours';
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

interface Year {
  readonly lago: FakeLago;
  readonly turnTo: (at: number) => void;
  /** Usage of a window that begins then, in the ledger two minutes later. */
  readonly use: (stamp: string, quantity: string) => Promise<void>;
  readonly wish: (plan: string) => void;
  /** Turns the clock on by minutes until it holds. */
  readonly until: (holds: () => void) => Promise<void>;
  readonly taken: () => number;
}

/**
 * Tenant acme on plan `a` since 1 January: a unit costs 2 there, 3 on `b`. Base fees are in cents.
 */
async function year(fees: readonly [a: number, b: number]): Promise<Year> {
  const start = time('01T00');
  const clock = createMonthClock(start);
  const lago = await startFakeLago({ apiKey: 'key' });
  closers.push(() => lago.close());
  lago.turnTo(start);
  const sliceTo: Year['turnTo'] = (at) => {
    lago.turnTo(at);
    clock.advanceTo(at);
  };
  const ledger = createMemoryLedger();
  const tenants = new Map<string, Tenant>();
  const wish = (plan: string): void =>
    void tenants.set('acme', tenantNamed('acme', { createdAt: start, plan }));
  wish('a');
  const options = { url: lago.url, apiKey: new Secret('key'), planCode: 'a', currency: 'USD' };
  const settings = { name: 'bills', type: 'lago', suspend: false, startFrom: 'earliest' } as const;
  const live = await startLiveDelivery({
    ledger,
    clock,
    tenants,
    destinations: [{ ...settings, options }],
  });
  closers.push(() => live.stop());
  const wait = { timeout: 15_000, interval: 5 };
  await vi.waitFor(() => expect(live.delivery.status('bills')?.bootstrapped).toBe(true), wait);
  const plan = lago.state.plans.get('a');
  if (plan === undefined) throw new Error('no plan');
  for (const [code, amount, amount_cents] of [
    ['a', '2', fees[0]],
    ['b', '3', fees[1]],
  ] as const) {
    const charges = plan.charges.map((charge) => ({ ...charge, properties: { amount } }));
    lago.state.plans.set(code, { ...plan, lago_id: code, code, amount_cents, charges });
  }
  sliceTo(time('01T01'));
  return {
    lago,
    turnTo: sliceTo,
    wish,
    taken: () => lago.state.events.size,
    use: async (stamp, quantity) => {
      sliceTo(time(stamp) + 120_000);
      const event = testEvent({ tenant: 'acme', id: stamp, windowStart: time(stamp), quantity });
      await ledger.append({ events: [{ ...event, metric: METRIC }] });
      await vi.waitFor(
        () => expect(live.delivery.status('bills')?.cursor).toBe(ledger.head()),
        wait,
      );
    },
    until: (holds) =>
      vi.waitFor(() => {
        sliceTo(clock.now() + 60_000);
        holds();
      }, wait),
  };
}

function plans({ lago }: Year): readonly string[] {
  return lago.state.subscriptions.map(({ plan_code, status }) => `${plan_code} ${status}`);
}

test('usage that is on its way at a change of plan is billed by the old plan, not by none', async () => {
  const one = await year([0, 0]);
  await one.use('05T00', '10');
  one.wish('b');
  await one.use('16T10:00', '1');
  await one.until(() => expect(plans(one)).toStrictEqual(['a terminated', 'b active']));
  await one.use('20T00', '5');
  await one.until(() => expect(one.taken()).toBe(3));
  one.turnTo(time('Mar 02T00'));
  const { events } = one.lago.account();
  expect(events.filter(({ lines }) => lines !== 1)).toStrictEqual([]);
  expect(summary(one.lago.account())).toBe('(16) 22, Jan 15');
});

test('usage of the minutes before a lower base fee takes over is billed, and nothing of the month before is lost', async () => {
  const one = await year([10_000, 0]);
  await one.use('01T03', '15');
  one.wish('b');
  await one.use('16T00', '1');
  await one.until(() => expect(plans(one)).toStrictEqual(['a active', 'b pending']));
  await one.use('Feb 01T00:05', '1');
  await one.until(() => expect(plans(one)).toStrictEqual(['a terminated', 'b active']));
  await one.until(() => expect(one.taken()).toBe(3));
  await one.use('Feb 03T00', '3');
  await one.until(() => expect(one.taken()).toBe(4));
  one.turnTo(time('Mar 02T00'));
  expect(summary(one.lago.account())).toBe('Jan 100+32, Feb 12');
});
