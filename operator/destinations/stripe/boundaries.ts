import type { Tenant } from '../../model/tenant.ts';
import type { BoundariesOutcome } from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import type { StripeCustomers } from './customers.ts';
import type { StripeClient } from './stripe-client.ts';
import { readSubscription } from './subscription.ts';

/**
 * When what charges a tenant changes: the ends of the periods of its customer's subscriptions, of these
 * themselves, and where prices were attached; in milliseconds. Nothing where the key may not read subscriptions.
 */
export async function boundariesAtStripe(
  client: StripeClient,
  customers: StripeCustomers,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<BoundariesOutcome> {
  const found = await customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
  if (found.kind === 'none') return { kind: 'boundaries', at: [] };
  if (found.kind !== 'customer') return found;
  const query = { customer: found.id, status: 'all' };
  const listed = await client.list('/v1/subscriptions', query, signal);
  if (listed.kind === 'refused') return { kind: 'boundaries', at: [] };
  if (listed.kind !== 'list') return failedStep(listed);
  const at = listed.items
    .map(readSubscription)
    .flatMap(({ periodStart, periodEnd, endedAt = 0, items }) => [
      periodStart,
      periodEnd,
      endedAt,
      ...items.map(({ created }) => created),
    ]);
  return {
    kind: 'boundaries',
    at: at.filter((second) => second > 0).map((second) => second * 1000),
  };
}
