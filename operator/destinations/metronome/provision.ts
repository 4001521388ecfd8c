import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Customers, StepOutcome } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import { type ApiProblem, failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectsOf, textOf } from '../json.ts';
import type { StripeCustomers } from '../stripe/customers.ts';
import { hourAtOrAfter, type MetronomeTenants, nextHour } from './contract-plan.ts';
import { MetronomeContracts } from './contracts.ts';
import { ensureCustomer, findCustomer } from './customers.ts';
import type { MetronomeClient } from './metronome-client.ts';
import type { RateCard, RateCards } from './rate-cards.ts';
import type { MetronomeSettings } from './settings.ts';

const PROVIDER = 'stripe';
const DELIVERY = 'direct_to_billing_provider';
const DONE: StepOutcome = { kind: 'done' };

type CardOutcome =
  | { readonly kind: 'card'; readonly card: RateCard }
  | { readonly kind: 'no-contract' }
  | FailedStep;

/** Creates and maintains a tenant's customer, its link to Stripe, and its contract. */
export class MetronomeProvisioner implements Customers {
  readonly #options;
  readonly #contracts: MetronomeContracts;

  constructor(options: {
    readonly name: string;
    readonly settings: MetronomeSettings;
    readonly client: MetronomeClient;
    readonly rateCards: RateCards;
    /** Present where customers are linked to Stripe. */
    readonly stripeCustomers: StripeCustomers | undefined;
    readonly tenants: MetronomeTenants;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { name, client, clock, logger } = options;
    this.#options = options;
    this.#contracts = new MetronomeContracts(name, client, clock, logger);
  }

  async provision(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { client, tenants } = this.#options;
    const card = await this.#cardOf(tenant, signal);
    if (card.kind !== 'card' && card.kind !== 'no-contract') return card;
    const customer = await ensureCustomer(client, tenant, signal);
    if (customer.kind !== 'customer') return customer;
    const linked = await this.#link(tenant, customer.id, signal);
    if (linked.kind !== 'linked') return linked;
    if (card.kind === 'no-contract') {
      tenants.set(tenant.id, { customerId: customer.id });
      return DONE;
    }
    const before = await this.#contracts.list(customer.id, signal);
    if (before.kind !== 'contracts') return failedStep(before);
    const wanted = {
      customerId: customer.id,
      name: tenant.id,
      rateCardId: card.card.id,
      billableFrom: tenant.billableFrom ?? tenant.createdAt,
      billingProviderId: linked.id,
      change: tenant.planChange ?? 'now',
      netTermsDays: tenant.billing?.netTermsDays,
    };
    const arranged = await this.#contracts.arrange(wanted, before, signal);
    if (arranged.kind !== 'done' && arranged.kind !== 'unchanged') return failedStep(arranged);
    // Read the result of the changes back from Metronome.
    const after =
      arranged.kind === 'unchanged' ? before : await this.#contracts.list(customer.id, signal);
    if (after.kind !== 'contracts') return failedStep(after);
    tenants.set(tenant.id, { customerId: customer.id, contracts: after.contracts });
    return DONE;
  }

  /**
   * Returns whether a tenant's contracts differ from those at its provisioning: somebody ended,
   * archived or made one in Metronome.
   */
  async isChanged(
    tenant: string,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'contracts'; readonly isChanged: boolean } | ApiProblem> {
    const { name, tenants, logger } = this.#options;
    const known = tenants.get(tenant);
    if (known?.contracts === undefined) return { kind: 'contracts', isChanged: false };
    const listed = await this.#contracts.list(known.customerId, signal);
    if (listed.kind !== 'contracts') return listed;
    const isChanged = JSON.stringify(listed.contracts) !== JSON.stringify(known.contracts);
    if (isChanged) {
      logger.warn(`[${name}] contracts of tenant ${tenant} were changed: it is provisioned again`);
    }
    return { kind: 'contracts', isChanged };
  }

  /** Ends our contracts at the first full hour after all usage. */
  async offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { settings, tenants } = this.#options;
    if (settings.rateCard !== undefined) {
      const found = await this.isChanged(tenant.id, signal);
      if (found.kind !== 'contracts') return failedStep(found);
      // If somebody ended a contract, usage since then still needs one.
      const covered = found.isChanged ? await this.provision(tenant, signal) : DONE;
      if (covered.kind !== 'done') return covered;
      const failed = await this.#endContracts(tenant, signal);
      if (failed !== undefined) return failed;
    }
    tenants.delete(tenant.id);
    return DONE;
  }

  async #endContracts(tenant: Tenant, signal: AbortSignal): Promise<FailedStep | undefined> {
    const { name, client, clock, logger } = this.#options;
    const found =
      tenant.customerIds?.['metronome'] === undefined
        ? await findCustomer(client, tenant.id, signal)
        : ({ kind: 'found', customer: { id: tenant.customerIds?.['metronome'] } } as const);
    if (found.kind === 'none') return undefined;
    if (found.kind !== 'found') return failedStep(found);
    const { id } = found.customer;
    const listed = await this.#contracts.list(id, signal);
    if (listed.kind !== 'contracts') return failedStep(listed);
    const now = clock.now();
    for (const contract of listed.contracts) {
      const end = contract.from < now ? hourAtOrAfter(now) : nextHour(contract.from);
      if (!contract.isOurs || contract.to <= end) continue;
      const ended =
        contract.from > now
          ? await this.#contracts.archive(id, contract.id, signal)
          : await this.#contracts.setEnd(id, contract.id, end, signal);
      if (ended.kind !== 'done') return failedStep(ended);
      const at = new Date(end).toISOString();
      logger.info(`[${name}] contract ${contract.id} of tenant ${tenant.id} ends at ${at}`);
    }
    return undefined;
  }

  /**
   * Returns the tenant's rate card: its plan, else the configured one. Without a configured rate
   * card there are no contracts.
   */
  async #cardOf(tenant: Tenant, signal: AbortSignal): Promise<CardOutcome> {
    const { settings, rateCards } = this.#options;
    if (settings.rateCard === undefined) return { kind: 'no-contract' };
    const reference = tenant.plan ?? settings.rateCard;
    const found = await rateCards.find(reference, signal);
    if (found.kind === 'missing') {
      const reason = `no such rate card in Metronome: plan: ${quote(reference)}`;
      return { kind: 'rejected', reason };
    }
    if (found.kind !== 'card') return failedStep(found);
    const currency = tenant.currency ?? settings.currency;
    if (found.card.currency === currency) return found;
    const priced = `rate card ${quote(reference)} is priced in ${found.card.currency ?? 'no currency'}`;
    return { kind: 'rejected', reason: `${priced}: currency: ${quote(currency)}` };
  }

  /** Links the customer to Stripe. `id`: its billing provider configuration, if linked. */
  async #link(
    tenant: Tenant,
    customerId: string,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'linked'; readonly id: string | undefined } | FailedStep> {
    const { settings, client, stripeCustomers } = this.#options;
    if (settings.stripeLink === undefined || stripeCustomers === undefined) {
      return { kind: 'linked', id: undefined };
    }
    const { collectionMethod } = settings.stripeLink;
    return linkToStripe(client, stripeCustomers, collectionMethod, tenant, customerId, signal);
  }
}

export type LinkOutcome =
  /** `id` is the customer's billing provider configuration; contracts name it. */
  { readonly kind: 'linked'; readonly id: string } | FailedStep;

/**
 * Links a customer to the tenant's customer at Stripe, so that invoices of its contracts can go
 * there (docs/how-to/destinations/metronome.md#invoices-through-stripe). It keeps a link to another
 * Stripe customer, which a person made.
 */
export async function linkToStripe(
  client: MetronomeClient,
  customers: StripeCustomers,
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
