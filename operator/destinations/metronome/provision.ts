import type { MetronomeSettings } from '../../config/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { quote } from '../../model/validate-event.ts';
import type { StepOutcome } from '../destination.ts';
import type { Tenant } from '../../model/tenant.ts';
import { createArrangeContracts } from './arrange-contracts.ts';
import { listContracts, setContractEnd } from './contracts.ts';
import type { StripeCustomers } from '../stripe/customers.ts';
import { ensureCustomer, findCustomer } from './customers.ts';
import { hourAtOrAfter, nextHour } from './hours.ts';
import type { MetronomeClient } from './metronome-client.ts';
import type { RateCard, RateCards } from './rate-cards.ts';
import { failedStep } from './step.ts';
import { linkToStripe } from './stripe-link.ts';
import type { MetronomeTenants } from './tenants.ts';

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

type Failed = Exclude<StepOutcome, { kind: 'done' }>;
type CardOutcome =
  | { readonly kind: 'card'; readonly card: RateCard }
  | { readonly kind: 'no-contract' }
  | Failed;

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
  ): Promise<{ readonly kind: 'linked'; readonly id: string | undefined } | Failed> => {
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
      tenant.metronomeCustomerId === undefined
        ? await findCustomer(client, tenant.id, signal)
        : ({ kind: 'found', customer: { id: tenant.metronomeCustomerId } } as const);
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
