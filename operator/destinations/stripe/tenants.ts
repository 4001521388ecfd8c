import type { Tenant } from '../../model/tenant.ts';
import type {
  ChangeOutcome,
  Customers,
  PeriodEndOutcome,
  Plans,
  ProvisionOutcome,
  StepOutcome,
} from '../destination.ts';
import type { StripeCustomers } from './customers.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeSubscriptions } from './subscriptions.ts';

const DONE: StepOutcome = { kind: 'done' };

/** Maintains a tenant's customer and subscriptions (docs/how-to/destinations/stripe.md). */
export class StripeTenants implements Customers, Plans {
  readonly #settings: Pick<StripeSettings, 'autoSubscribe' | 'cancelOnRemove'>;
  readonly #customers: StripeCustomers;
  readonly #subscriptions: StripeSubscriptions;
  readonly #tenants = new Map<string, Tenant>();

  constructor(
    settings: Pick<StripeSettings, 'autoSubscribe' | 'cancelOnRemove'>,
    customers: StripeCustomers,
    subscriptions: StripeSubscriptions,
  ) {
    this.#settings = settings;
    this.#customers = customers;
    this.#subscriptions = subscriptions;
  }

  /** Returns a tenant as last provisioned. */
  find(tenant: string): Tenant | undefined {
    return this.#tenants.get(tenant);
  }

  async provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome> {
    this.#tenants.set(tenant.id, tenant);
    const customer = await this.#customers.ensure(tenant, signal);
    if (customer.kind !== 'customer') return customer;
    if (!this.#settings.autoSubscribe) return DONE;
    return this.#subscriptions.subscribe(tenant, customer.id, signal);
  }

  async change(tenant: Tenant, _before: number, signal: AbortSignal): Promise<ChangeOutcome> {
    const customer = await this.#customers.ensure(tenant, signal);
    if (customer.kind !== 'customer') return customer;
    return this.#subscriptions.change(tenant, customer.id, signal);
  }

  /** Returns the end of the period, for which only a change of plan waits. */
  async periodEnd({ id }: Tenant, now: number): Promise<PeriodEndOutcome> {
    const at = this.#subscriptions.outgoingPeriodOf(id)?.end ?? now;
    return { kind: 'period-end', at };
  }

  async offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    this.#tenants.delete(tenant.id);
    if (!this.#settings.cancelOnRemove) return DONE;
    const customer = await this.#customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (customer.kind === 'none') return DONE;
    if (customer.kind !== 'customer') return customer;
    return this.#subscriptions.cancel(tenant.id, customer.id, signal);
  }
}
