import { expect, test } from 'vitest';
import type { FakeRequest } from '../../../e2e/fakes/fake-server.ts';
import { startStripeMock } from '../../../e2e/tools/stripe-mock.ts';
import { testTenant } from '../testing/context.ts';
import { bookFor, TODAY } from '../testing/price-books.ts';
import {
  createStripeWorld,
  gpuEvent,
  NEVER,
  settle,
  WINDOW_START,
} from './testing/stripe-world.ts';

const DAY_MS = 86_400_000;
/** The invoice of November is final an hour after its end. */
const AFTER_INVOICE = Date.UTC(2026, 11, 2);

/** Returns every kind of request of the destination, from one life. */
async function everyRequest(): Promise<readonly FakeRequest[]> {
  const world = await createStripeWorld(
    { rules: { minimumCents: 0 } },
    {
      autoSubscribe: true,
      cancelOnRemove: true,
      payment: { collectionMethod: 'send_invoice', daysUntilDue: 14, automaticTax: true },
      billingDay: 31,
    },
  );
  const { destination, stripe, time, price, ready } = world;
  const must = async (step: Promise<{ readonly kind: string }> | undefined): Promise<void> => {
    expect(['done', 'total', 'verified', 'alerts', 'compared']).toContain((await step)?.kind);
  };
  await ready();
  await price('tenant_gpu_hours');
  await price('tenant_lb_hours');
  await price('tenant_gpu_hours', { plan: 'gold' });
  await price('tenant_lb_hours', { plan: 'yearly', interval: 'year' });
  time.now += 300_000;
  const billing = {
    address: { line1: 'Street 1', city: 'Köln', postalCode: '50667', country: 'DE' },
    taxId: 'DE123456789',
    netTermsDays: 30,
  };
  const tenant = testTenant({ email: 'a@example.com', billableFrom: time.now - DAY_MS, billing });
  await settle(destination, tenant);
  await settle(destination, { ...tenant, plan: 'gold' });
  await settle(destination, { ...tenant, plan: 'yearly' });
  const event = gpuEvent();
  expect(await destination.send([event], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
  await must(destination.verify?.([event], NEVER));
  const from = Date.UTC(2026, 10, 21);
  const query = { tenant, metric: 'tenant_gpu_hours', from, to: from + DAY_MS };
  await must(destination.sums.total(query, NEVER));
  const [subscription = ''] = stripe.state.subscriptions.keys();
  const requested = [`subscription/${subscription}`, `invoice/${stripe.state.invoices[0]?.id}`];
  await must(destination.alerts.current(requested, NEVER));
  const books = [{ book: bookFor([]), isDefault: true }];
  const prices = { books, metrics: new Set<string>(), day: TODAY };
  await must(destination.prices.compare(prices, NEVER));
  await must(destination.customers.offboard(tenant, NEVER));
  await must(destination.customers.provision({ ...tenant, plan: 'yearly' }, NEVER));
  for (const meter of stripe.state.meters.values()) meter.status = 'inactive';
  expect(await destination.send([gpuEvent()], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
  const [customer = ''] = stripe.state.customers.keys();
  const pinned = testTenant({ id: 'pinned', customerIds: { stripe: customer } });
  await settle(destination, pinned);
  await world.close();
  return stripe.requests;
}

/** Returns the requests of late usage, billed on the next invoice and credited on its own. */
async function lateRequests(): Promise<readonly FakeRequest[]> {
  const tax = { percent: 20, behavior: 'exclusive', isAutomatic: false } as const;
  const world = await createStripeWorld({ rules: { tax } }, { autoSubscribe: true, billingDay: 1 });
  const { destination, stripe, time, price, ready } = world;
  await ready();
  await price('tenant_gpu_hours');
  time.now += 300_000;
  const tenant = testTenant({ billableFrom: Date.parse(WINDOW_START) });
  await settle(destination, tenant);
  const { sku: _, ...event } = gpuEvent();
  expect(await destination.send([event], NEVER)).toStrictEqual([{ kind: 'delivered' }]);
  time.now = AFTER_INVOICE;
  stripe.turnTo(AFTER_INVOICE);
  const [pricing] = (await destination.late?.price(tenant, [event], NEVER)) ?? [];
  if (pricing?.kind !== 'priced') throw new Error(JSON.stringify(pricing));
  const from = Date.parse(event.window_start);
  const line = {
    price: pricing.price,
    metric: event.metric,
    from,
    to: from + 3_600_000,
    text: 'GPU hours that came late',
  };
  const next = { ...line, way: 'next', quantity: '200', amount: '2.00', minor: 200n } as const;
  const credit = { ...line, way: 'credit', quantity: '-0.5', amount: '-0.01', minor: -1n } as const;
  for (const late of [next, credit]) {
    const outcome = await destination.late?.bill(
      tenant,
      { ...late, id: `late_${late.way}` },
      NEVER,
    );
    expect(outcome).toMatchObject({ kind: 'billed' });
  }
  await world.close();
  return stripe.requests;
}

test('Stripe’s own specification has no objection to any request', async () => {
  const requests = [...(await everyRequest()), ...(await lateRequests())];
  const mock = await startStripeMock();
  const refused: unknown[] = [];
  const kinds = new Set<string>();
  for (const { method, path, query, body, headers } of requests) {
    const specified = path.startsWith('/v1/');
    if (!specified) continue;
    const search = query.toString();
    const answer = await fetch(`${mock.url}${path}${search === '' ? '' : `?${search}`}`, {
      method,
      headers,
      ...(method === 'POST' && { body }),
    });
    kinds.add(`${method} ${path.replaceAll(/\/[a-z]+_[a-z_]*\d+/g, '/:id')}`);
    if (!answer.ok) refused.push([method, path, search, body, await answer.text()]);
    else await answer.body?.cancel();
  }
  await mock.close();
  expect(refused).toStrictEqual([]);
  expect([...kinds].toSorted()).toStrictEqual([
    'DELETE /v1/subscriptions/:id',
    'GET /v1/billing/meters',
    'GET /v1/billing/meters/:id/event_summaries',
    'GET /v1/credit_notes',
    'GET /v1/credit_notes/preview',
    'GET /v1/customers',
    'GET /v1/customers/:id',
    'GET /v1/customers/:id/tax_ids',
    'GET /v1/customers/search',
    'GET /v1/invoiceitems',
    'GET /v1/invoices',
    'GET /v1/invoices/:id',
    'GET /v1/prices',
    'GET /v1/prices/:id',
    'GET /v1/subscriptions',
    'GET /v1/subscriptions/:id',
    'POST /v1/billing/meter_events',
    'POST /v1/billing/meters',
    'POST /v1/billing/meters/:id/reactivate',
    'POST /v1/credit_notes',
    'POST /v1/customers',
    'POST /v1/customers/:id',
    'POST /v1/customers/:id/tax_ids',
    'POST /v1/invoiceitems',
    'POST /v1/invoices/:id',
    'POST /v1/prices',
    'POST /v1/subscriptions',
    'POST /v1/subscriptions/:id',
  ]);
});
