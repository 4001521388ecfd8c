import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { FailedStep } from '../failed-step.ts';
import { idsOf, subscriptionIdOf } from './customers.ts';
import { failedStep, type LagoClient } from './lago-client.ts';
import { findActive, type LagoSubscription } from './subscriptions.ts';

/** Refuses a named customer of another tenant: customers are called like their tenants. */
export async function takenCustomer(
  client: LagoClient,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<FailedStep | undefined> {
  const { customer } = idsOf(tenant);
  if (customer === tenant.id) return undefined;
  const answer = await findActive(client, subscriptionIdOf(customer), signal);
  if (answer.kind === 'none') return undefined;
  if (answer.kind !== 'subscription') return failedStep(answer);
  if (answer.subscription.customer !== customer) return undefined;
  const reason = `the customer of another tenant: lago-customer-id: ${quote(customer)}`;
  return { kind: 'rejected', reason };
}

/** Returns the active subscription that a tenant names. It must belong to the tenant's customer. */
export async function namedSubscription(
  client: LagoClient,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<
  { readonly kind: 'subscription'; readonly subscription: LagoSubscription } | FailedStep
> {
  const { customer, subscription: id } = idsOf(tenant);
  const answer = await findActive(client, id, signal);
  const isTheirs = answer.kind === 'subscription' && answer.subscription.customer === customer;
  if (isTheirs) return answer;
  if (answer.kind !== 'none' && answer.kind !== 'subscription') return failedStep(answer);
  const what = `customer ${quote(customer)} has no such active subscription in Lago`;
  return { kind: 'rejected', reason: `${what}: lago-subscription-id: ${quote(id)}` };
}
