import { meterName } from '../../../operator/destinations/stripe/meters.ts';
import { meterValue } from '../../../operator/destinations/stripe/meter-event.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import { type FakeStripe, startFakeStripe } from '../../fakes/stripe/stripe.ts';
import { type StandIn, TRUE_TIME_HEADER } from './stand-in.ts';

export const STRIPE_API_KEY = 'sk_test_faults';
export const STRIPE_SPLIT_BY = ['sku'];

const SEARCH_LAG_MS = 60_000;

/** Stripe, which remembers identifiers for a day, and whose search lags behind. */
export async function startStripe(): Promise<StandIn> {
  const stripe = await startFakeStripe({
    apiKey: STRIPE_API_KEY,
    searchLagMs: SEARCH_LAG_MS,
    keepsRequests: false,
    timeOf: ({ headers, at }) => Number(headers[TRUE_TIME_HEADER] ?? at),
  });
  return {
    url: stripe.url,
    billed: () => {
      const tenants = tenantsOf(stripe);
      return stripe.state.events.map((event) => {
        const { identifier: id, event_name, timestamp, value, customer } = event;
        return { id, content: text(event_name, timestamp, value, tenants.get(customer)) };
      });
    },
    repeats: () => stripe.state.repeats,
    close: () => stripe.close(),
  };
}

/** The tenant of each customer; a tenant with two customers, whose bill would be in two parts, is none. */
function tenantsOf({ state }: FakeStripe): ReadonlyMap<string, string> {
  const tenants = new Map<string, string>();
  const customers = [...state.customers.values()];
  for (const [tenant, own] of Map.groupBy(customers, ({ metadata }) => tenantOf(metadata))) {
    for (const { id } of own) tenants.set(id, own.length === 1 ? tenant : `${tenant} in parts`);
  }
  return tenants;
}

function tenantOf(metadata: Readonly<Record<string, string>>): string {
  return metadata['vbilling_tenant_id'] ?? '';
}

/** What Stripe should have of an event. */
export function stripeContent(event: UsageEvent): string {
  const timestamp = Date.parse(event.window_start) / 1000;
  return text(
    meterName(event, STRIPE_SPLIT_BY),
    timestamp,
    meterValue(event.quantity),
    event.tenant,
  );
}

/** Stripe counts by customer and meter, and each of these in order. */
export function stripeLane(event: UsageEvent): string {
  return `${event.tenant} ${meterName(event, STRIPE_SPLIT_BY)}`;
}

function text(meter: string, at: number, value: string, tenant: string | undefined): string {
  return JSON.stringify([meter, at, value, tenant]);
}
