import { afterEach, expect, test, vi } from 'vitest';
import { startFakeLago } from '../../../e2e/fakes/lago/lago.ts';
import { startFakeStripe } from '../../../e2e/fakes/stripe/stripe.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import { formatInstant } from '../../model/window.ts';
import { type MonthWorld, on, startMonths } from '../testing/month-world.ts';
import { lagoOptions, stripeOptions } from '../testing/vendor-options.ts';

const METRIC = 'tenant_instance_hours';
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** `units` of windows that begin then, all recorded now. */
async function append(
  { ledger, clock }: MonthWorld,
  ...windows: readonly (readonly [begin: number, units: bigint])[]
): Promise<void> {
  const events = windows.map(([windowStart, units]) => ({
    ...testEvent({ tenant: 'acme', id: `window ${formatInstant(windowStart)}`, windowStart }),
    metric: METRIC,
    quantity: decimalFromNanos(units * 1_000_000_000n),
    recorded_at: formatInstant(clock.now()),
  }));
  expect((await ledger.append({ events })).kind).toBe('appended');
}

/** Lets the hour of the newest window end, and everything be delivered. */
async function delivered(one: MonthWorld): Promise<void> {
  const hour = Math.ceil((one.clock.now() + 1) / HOUR_MS) * HOUR_MS;
  one.turnTo(textOf(hour + 15 * MINUTE_MS));
  await vi.waitFor(
    () => {
      const status = one.delivery().status('bills');
      expect(status?.cursor).toBe(one.ledger.head());
      expect(status?.parkedTenants).toStrictEqual([]);
      // A first subscription takes its time.
      if (status?.planChanges.length !== 0) one.turnTo(textOf(one.clock.now() + MINUTE_MS));
      expect(status?.planChanges).toStrictEqual([]);
    },
    { timeout: 10_000, interval: 5 },
  );
}

/** As `turnTo` takes it. */
function textOf(at: number): string {
  return formatInstant(at).slice(5, 16);
}

test('Lago: a sum ends with the month of a customer whose midnight is not at a whole hour of UTC', async () => {
  const lago = await startFakeLago({ apiKey: 'key', rules: { graceDays: 3 } });
  closers.push(() => lago.close());
  const options = lagoOptions(lago.url);
  const one = await startMonths({
    settings: { type: 'lago', options, aggregate: '1h' },
    turnTo: lago.turnTo,
    tenant: { billing: { timeZone: 'Australia/Adelaide' } },
  });
  closers.push(() => one.stop());
  one.turnTo('01-05T00:05');
  await append(one, [on('01-05T00:00'), 10n]);
  await delivered(one);
  // February begins at 13:30 UTC there.
  one.turnTo('01-31T13:50');
  await append(one, [on('01-31T13:10'), 4n], [on('01-31T13:20'), 1n], [on('01-31T13:40'), 2n]);
  await delivered(one);
  one.turnTo('03-10T00:00');
  const { invoices, events } = lago.account();
  expect(events.map(({ units, fate }) => [units, fate.kind])).toStrictEqual([
    ['10', 'invoiced'],
    ['5', 'invoiced'],
    ['2', 'invoiced'],
  ]);
  const lines = invoices
    .flatMap((invoice) => invoice.lines)
    .filter(({ metric }) => metric === METRIC);
  expect(lines.map(({ units }) => units)).toStrictEqual(['15', '2']);
});

test('Stripe: a sum ends with a period that does not end at a whole hour', async () => {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key' });
  closers.push(() => stripe.close());
  const options = stripeOptions(stripe.url, { splitMetersBy: [] });
  const one = await startMonths({
    settings: { type: 'stripe', options, aggregate: '1h' },
    turnTo: stripe.turnTo,
    tenant: { createdAt: on('01-04T12:30') },
  });
  closers.push(() => one.stop());
  const meter = [...stripe.state.meters.values()].find(({ event_name }) => event_name === METRIC);
  const answer = await fetch(`${stripe.url}/v1/prices`, {
    method: 'POST',
    headers: { authorization: 'Bearer sk_test_key' },
    body: new URLSearchParams({
      currency: 'usd',
      'product_data[name]': METRIC,
      unit_amount_decimal: '200',
      // Weeks have no billing day: they begin with the subscription.
      'recurring[interval]': 'week',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter?.id ?? '',
      'metadata[vbilling_plan]': 'tenant-standard',
    }),
  });
  expect(answer.status).toBe(200);
  // Prices that were read before are believed for five minutes.
  await one.restart();
  one.turnTo('01-04T13:05');
  await append(one, [on('01-04T12:40'), 10n]);
  await delivered(one);
  const [subscription] = stripe.state.subscriptions.values();
  const end = (subscription?.periodEnd ?? 0) * 1_000;
  // Otherwise there is nothing to see.
  expect(end % HOUR_MS).not.toBe(0);
  one.turnTo(textOf(end + 25 * MINUTE_MS));
  await append(
    one,
    [end - 20 * MINUTE_MS, 4n],
    [end - 10 * MINUTE_MS, 1n],
    [end + 10 * MINUTE_MS, 2n],
  );
  await delivered(one);
  one.turnTo('03-20T00:00');
  const { events } = stripe.account();
  expect(events.map(({ units, fate }) => [units, fate.kind])).toStrictEqual([
    ['10', 'invoiced'],
    ['5', 'invoiced'],
    ['2', 'invoiced'],
  ]);
});
