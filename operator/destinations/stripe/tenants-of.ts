import type { CustomerAnswer } from '../destination.ts';
import { isObject, textOf } from '../json.ts';
import type { StripeClient } from './stripe-client.ts';

/** Which tenant a customer is, by the metadata that it was created with; a deleted one is nobody. */
export async function tenantsOfStripeCustomer(
  client: StripeClient,
  customer: string,
  signal: AbortSignal,
): Promise<CustomerAnswer> {
  const answer = await client.get(`/v1/customers/${encodeURIComponent(customer)}`, {}, signal);
  if (answer.kind === 'refused') return { kind: 'unknown' };
  if (answer.kind !== 'ok') return { kind: 'failed', reason: answer.reason };
  const metadata = answer.body['metadata'];
  const tenant = isObject(metadata) ? textOf(metadata, 'vbilling_tenant_id') : undefined;
  return tenant === undefined
    ? { kind: 'unknown' }
    : { kind: 'tenants', tenants: [tenant], certain: true };
}
