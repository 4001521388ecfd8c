import type { MetronomeSettings } from './settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { FailedStep, StepOutcome } from '../destination.ts';
import { failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectsOf, textOf } from '../json.ts';
import type { StripeCustomers } from '../stripe/customers.ts';
import { hourAtOrAfter, type MetronomeTenants, nextHour } from './contract-plan.ts';
import { createArrangeContracts, listContracts, setContractEnd } from './contracts.ts';
import { ensureCustomer, findCustomer } from './customers.ts';
import type { MetronomeClient } from './metronome-client.ts';
import type { RateCard, RateCards } from './rate-cards.ts';

export interface ProvisionOptions {
  readonly name: string;
  readonly settings: MetronomeSettings;
  readonly client: MetronomeClient;
  readonly rateCards: RateCards;
  /** Present where customers are linked to Stripe. */
  readonly stripeCustomers: Pick<StripeCustomers, 'ensure'> | undefined;
  readonly tenants: MetronomeTenants;
  readonly clock: Clock;
  readonly logger: Logger;
}

type CardOutcome =
  | { readonly kind: 'card'; readonly card: RateCard }
  | { readonly kind: 'no-contract' }
  | FailedStep;

/** Makes sure of a tenant's customer, of its link to Stripe, and of its contract (spec 1.4). */
export function createProvision(options: ProvisionOptions) {
  const { name, settings, client, rateCards, tenants, clock, logger } = options;
  const arrange = createArrangeContracts(name, client, clock, logger);

  /** A tenant's plan is its rate card; there are contracts only where a rate card is configured. */
  const cardOf = async (tenant: Tenant, signal: AbortSignal): Promise<CardOutcome> => {
    if (settings.rateCard === undefined) return { kind: 'no-contract' };
    const reference = tenant.plan ?? settings.rateCard;
    const found = await rateCards.find(reference, signal);
    if (found.kind === 'missing') {
      return {
        kind: 'rejected',
        reason: `no such rate card in Metronome: plan: ${quote(reference)}`,
      };
    }
    if (found.kind !== 'card') return failedStep(found);
    const currency = tenant.currency ?? settings.currency;
    if (found.card.currency === currency) return found;
    const priced = `rate card ${quote(reference)} is priced in ${found.card.currency ?? 'no currency'}`;
    return { kind: 'rejected', reason: `${priced}: currency: ${quote(currency)}` };
  };

  const link = async (
    tenant: Tenant,
    customerId: string,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'linked'; readonly id: string | undefined } | FailedStep> => {
    const { stripeCustomers } = options;
    if (settings.stripeLink === undefined || stripeCustomers === undefined) {
      return { kind: 'linked', id: undefined };
    }
    const { collectionMethod } = settings.stripeLink;
    return linkToStripe(client, stripeCustomers, collectionMethod, tenant, customerId, signal);
  };

  const provision = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
    const card = await cardOf(tenant, signal);
    if (card.kind !== 'card' && card.kind !== 'no-contract') return card;
    const customer = await ensureCustomer(client, tenant, signal);
    if (customer.kind !== 'customer') return customer;
    const linked = await link(tenant, customer.id, signal);
    if (linked.kind !== 'linked') return linked;
    if (card.kind === 'no-contract') {
      tenants.set(tenant.id, { customerId: customer.id });
      return { kind: 'done' };
    }
    const before = await listContracts(client, customer.id, signal);
    if (before.kind !== 'contracts') return failedStep(before);
    const wanted = {
      customerId: customer.id,
      name: tenant.id,
      rateCardId: card.card.id,
      billableFrom: tenant.billableFrom ?? tenant.createdAt,
      billingProviderId: linked.id,
    };
    const arranged = await arrange(wanted, before.contracts, signal);
    if (arranged.kind !== 'done' && arranged.kind !== 'unchanged') return failedStep(arranged);
    // Whatever was done is seen as Metronome has it.
    const after =
      arranged.kind === 'unchanged' ? before : await listContracts(client, customer.id, signal);
    if (after.kind !== 'contracts') return failedStep(after);
    tenants.set(tenant.id, { customerId: customer.id, contracts: after.contracts });
    return { kind: 'done' };
  };

  /** Contracts made here end at the first full hour by which all usage has come (facts 8, 4). */
  const offboard = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
    if (settings.rateCard === undefined) {
      tenants.delete(tenant.id);
      return { kind: 'done' };
    }
    const found =
      tenant.customerIds?.['metronome'] === undefined
        ? await findCustomer(client, tenant.id, signal)
        : ({ kind: 'found', customer: { id: tenant.customerIds?.['metronome'] } } as const);
    if (found.kind === 'none') {
      tenants.delete(tenant.id);
      return { kind: 'done' };
    }
    if (found.kind !== 'found') return failedStep(found);
    const { id } = found.customer;
    const listed = await listContracts(client, id, signal);
    if (listed.kind !== 'contracts') return failedStep(listed);
    const now = clock.now();
    for (const contract of listed.contracts) {
      const end = contract.from < now ? hourAtOrAfter(now) : nextHour(contract.from);
      if (!contract.isOurs || contract.to <= end) continue;
      const ended = await setContractEnd(client, id, contract.id, end, signal);
      if (ended.kind !== 'done') return failedStep(ended);
      const at = new Date(end).toISOString();
      logger.info(`[${name}] contract ${contract.id} of tenant ${tenant.id} ends at ${at}`);
    }
    tenants.delete(tenant.id);
    return { kind: 'done' };
  };

  return { provision, offboard };
}

export type LinkOutcome =
  /** `id` is that of the customer's billing provider configuration, which contracts name. */
  { readonly kind: 'linked'; readonly id: string } | FailedStep;

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

function stripeConfiguration(body: JsonObject): string | undefined {
  const found = objectsOf(body, 'data').find(
    (item) =>
      textOf(item, 'billing_provider') === PROVIDER && textOf(item, 'archived_at') === undefined,
  );
  return found === undefined ? undefined : textOf(found, 'id');
}
