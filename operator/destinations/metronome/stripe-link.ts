import type { MetronomeSettings } from '../../config/settings.ts';
import { isObject, objectsOf, textOf } from '../json.ts';
import type { StepOutcome } from '../destination.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { StripeCustomers } from '../stripe/customers.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { failedStep } from './step.ts';

export type LinkOutcome =
  /** `id` is that of the customer's billing provider configuration, which contracts name. */
  { readonly kind: 'linked'; readonly id: string } | Exclude<StepOutcome, { kind: 'done' }>;

const PROVIDER = 'stripe';
const DELIVERY = 'direct_to_billing_provider';

/**
 * Links a customer to the tenant's customer at Stripe, so that invoices of its contracts can go there
 * (facts 3.4). A link to another Stripe customer that an operator made is left as it is.
 */
export async function linkToStripe(
  client: MetronomeClient,
  customers: Pick<StripeCustomers, 'ensure'>,
  collectionMethod: NonNullable<MetronomeSettings['stripeLink']>['collectionMethod'],
  tenant: Tenant,
  customerId: string,
  signal: AbortSignal,
): Promise<LinkOutcome> {
  const listed = await configurations(client, customerId, signal);
  if (listed.kind !== 'ok') return failedStep(listed);
  const existing = stripeConfiguration(listed.body);
  if (existing !== undefined) return { kind: 'linked', id: existing };
  const stripe = await customers.ensure(tenant, signal);
  if (stripe.kind !== 'customer') return stripe;
  const body = {
    data: [
      {
        customer_id: customerId,
        billing_provider: PROVIDER,
        delivery_method: DELIVERY,
        configuration: {
          stripe_customer_id: stripe.id,
          stripe_collection_method: collectionMethod,
        },
      },
    ],
  };
  const path = '/v1/setCustomerBillingProviderConfigurations';
  const answer = await client.create(path, body, signal);
  if (answer.kind !== 'ok') return failedStep(answer);
  const again = await configurations(client, customerId, signal);
  if (again.kind !== 'ok') return failedStep(again);
  const made = stripeConfiguration(again.body);
  return made === undefined
    ? { kind: 'retry', reason: 'the link to Stripe is not listed yet' }
    : { kind: 'linked', id: made };
}

function configurations(client: MetronomeClient, customerId: string, signal: AbortSignal) {
  const path = '/v1/getCustomerBillingProviderConfigurations';
  return client.post(path, { customer_id: customerId }, signal);
}

function stripeConfiguration(body: unknown): string | undefined {
  const found = objectsOf(isObject(body) ? body : {}, 'data').find(
    (item) =>
      textOf(item, 'billing_provider') === PROVIDER && textOf(item, 'archived_at') === undefined,
  );
  return found === undefined ? undefined : textOf(found, 'id');
}
