import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type {
  ChangeOutcome,
  Customers,
  PeriodEndOutcome,
  Plans,
  ProvisionOutcome,
  StepOutcome,
} from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import { BILLING_RUN_MS, dayAfter, periodStartOf } from './billing-period.ts';
import {
  ANY_CUSTOMER,
  ensureCustomer,
  graceDaysOf,
  idsOf,
  type LagoCustomer,
  type LagoIds,
  probeTenant,
  subscriptionIdOf,
} from './customers.ts';
import { failedStep, type LagoClient } from './lago-client.ts';
import { namedSubscription, takenCustomer } from './pins.ts';
import { drain, handOver, waiting } from './plan-changes.ts';
import type { LagoPlan, LagoPlans } from './plans.ts';
import type { LagoSettings } from './settings.ts';
import {
  type ActiveSubscriptions,
  billingRunUntil,
  endedSubscriptions,
  findActive,
  type LagoSubscription,
  subscriptionOf,
} from './subscriptions.ts';

const DONE: StepOutcome = { kind: 'done' };
const BEFORE_THE_RUN = 'Lago is about to invoice the period before';

type PlanChoice = { readonly kind: 'plan'; readonly plan: LagoPlan } | FailedStep;
type Existing = { readonly kind: 'subscription'; readonly subscription: LagoSubscription };

/** Maintains a tenant's customer and subscription (docs/how-to/destinations/lago.md#tenants). */
export class LagoProvisioner implements Customers, Plans {
  readonly #options;
  /** Customers as provisioning last found them, by tenant. */
  readonly #customers = new Map<string, LagoCustomer>();
  /** Subscriptions that tenants name, by tenant. */
  readonly #named = new Map<string, string>();

  constructor(options: {
    readonly name: string;
    readonly settings: LagoSettings;
    readonly client: LagoClient;
    readonly plans: LagoPlans;
    readonly subscriptions: ActiveSubscriptions;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  async provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome> {
    const { client } = this.#options;
    const ids = idsOf(tenant);
    const taken = await takenCustomer(client, tenant, signal);
    if (taken !== undefined) return taken;
    if (ids.subscriptionIsNamed) return this.#useNamed(tenant, signal);
    this.#named.delete(tenant.id);
    const choice = await this.#planOf(tenant, signal);
    if (choice.kind !== 'plan') return choice;
    const { plan } = choice;
    const probed = await probeTenant(client, ids, signal);
    if (probed.kind === 'retry' || probed.kind === 'blocked' || probed.kind === 'refused') {
      return failedStep(probed);
    }
    const creation = probed.kind === 'no-customer' ? { currency: plan.currency } : undefined;
    const ensured = await ensureCustomer(client, tenant, creation, signal);
    if (ensured.kind !== 'customer') return ensured;
    this.#customers.set(tenant.id, ensured.customer);
    return probed.kind === 'subscribed'
      ? this.#reuse(tenant, ids, plan, signal)
      : this.#subscribe(tenant, ids, plan, ensured.customer, signal);
  }

  /** Changes the plan at once. A plan with a lower base fee is registered and waits for Lago. */
  async change(tenant: Tenant, _before: number, signal: AbortSignal): Promise<ChangeOutcome> {
    const { clock } = this.#options;
    const choice = await this.#planOf(tenant, signal);
    if (choice.kind !== 'plan') return choice;
    const found = await this.#active(tenant, signal);
    if (found.kind !== 'subscription') return found;
    const { subscription: current } = found;
    const wanted = tenant.plan ?? current.nextPlanCode ?? current.planCode;
    if (wanted === current.planCode) return this.#changed(tenant, current, signal);
    const now = clock.now();
    if (wanted === current.nextPlanCode) return waiting(current, now);
    const quiet = billingRunUntil(current, now);
    if (quiet !== undefined) {
      return { kind: 'retry', reason: BEFORE_THE_RUN, afterMs: quiet - now };
    }
    const after = await this.#query(tenant, wanted, signal);
    if (after.kind !== 'subscription') return after;
    const { subscription } = after;
    return subscription.planCode === wanted
      ? this.#changed(tenant, subscription, signal)
      : waiting(subscription, now);
  }

  async periodEnd(tenant: Tenant, now: number, signal: AbortSignal): Promise<PeriodEndOutcome> {
    const answer = await findActive(this.#options.client, idsOf(tenant).subscription, signal);
    if (answer.kind === 'none') return { kind: 'period-end', at: now };
    if (answer.kind !== 'subscription') return failedStep(answer);
    return { kind: 'period-end', at: answer.subscription.periodEndsAt ?? now };
  }

  /** Lago makes invoices in the first hour of a period by UTC; `change` knows a customer's hour. */
  quietUntil(now: number): number | undefined {
    const begun = ['monthly', 'weekly'].map((interval) => periodStartOf(interval, 'UTC', now));
    const until = Math.max(...begun) + BILLING_RUN_MS;
    return now < until ? until : undefined;
  }

  /** Ends the subscription, which invoices the remainder, once the previous period is invoiced. */
  async offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { client, clock, subscriptions } = this.#options;
    const { subscription: externalId, subscriptionIsNamed } = idsOf(tenant);
    if (subscriptionIsNamed) return DONE;
    const answer = await findActive(client, externalId, signal);
    if (answer.kind === 'subscription') {
      const now = clock.now();
      const quiet = billingRunUntil(answer.subscription, now);
      if (quiet !== undefined) {
        return { kind: 'retry', reason: BEFORE_THE_RUN, afterMs: quiet - now };
      }
      const path = `/subscriptions/${encodeURIComponent(externalId)}`;
      const ended = await client.call('DELETE', path, undefined, signal);
      const gone = ended.kind === 'refused' && ended.code === 'subscription_not_found';
      if (ended.kind !== 'ok' && !gone) return failedStep(ended);
    } else if (answer.kind !== 'none') return failedStep(answer);
    subscriptions.remove(externalId);
    return DONE;
  }

  /** Uses a subscription that somebody else made, and does not change it. */
  async #useNamed(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { client, subscriptions } = this.#options;
    const ensured = await ensureCustomer(client, tenant, undefined, signal);
    if (ensured.kind !== 'customer') return ensured;
    const found = await namedSubscription(client, tenant, signal);
    if (found.kind !== 'subscription') return found;
    subscriptions.add(found.subscription);
    this.#named.set(tenant.id, found.subscription.externalId);
    return DONE;
  }

  /** Returns the subscription of a tenant's usage, as provisioning found it. */
  subscriptionOf(tenant: string): string {
    return this.#named.get(tenant) ?? subscriptionIdOf(tenant);
  }

  async #planOf(tenant: Tenant, signal: AbortSignal): Promise<PlanChoice> {
    const { settings, plans } = this.#options;
    const planCode = tenant.plan ?? settings.planCode;
    const found = await plans.find(planCode, signal);
    if (found.kind === 'missing') {
      return { kind: 'rejected', reason: `no such plan in Lago: plan: ${quote(planCode)}` };
    }
    if (found.kind !== 'plan') return failedStep(found);
    const currency = tenant.currency ?? settings.currency;
    if (currency === found.plan.currency) return found;
    const priced = `plan ${quote(planCode)} is priced in ${found.plan.currency}`;
    return { kind: 'rejected', reason: `${priced}: currency: ${quote(currency)}` };
  }

  /**
   * Creates a subscription. Its start is the latest of the tenant's billable start, the start of
   * the current period, and the end of what the last subscription of the same id invoiced. Lago
   * invoices no usage from before the current period.
   */
  async #subscribe(
    tenant: Tenant,
    ids: LagoIds,
    plan: LagoPlan,
    { zone }: LagoCustomer,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { name, client, clock, logger } = this.#options;
    const ended = await endedSubscriptions(client, ids, signal);
    if (ended.kind !== 'ended') return failedStep(ended);
    const from = tenant.billableFrom ?? tenant.createdAt;
    const start = Math.max(
      from,
      periodStartOf(plan.usageInterval, zone, clock.now()),
      ended.invoicedUntil,
    );
    const subscription = {
      external_customer_id: ids.customer,
      plan_code: plan.code,
      external_id: ids.subscription,
      billing_time: 'calendar',
      subscription_at: new Date(start).toISOString(),
    };
    const made = await this.#post(subscription, signal);
    if (made.kind !== 'subscription') return made;
    const { subscription: created } = made;
    logger.info(`[${name}] subscribed tenant ${tenant.id} to plan ${plan.code}`);
    if (created.startedAt > from) {
      const since = new Date(created.startedAt).toISOString();
      logger.warn(`[${name}] tenant ${tenant.id}: Lago bills nothing before ${since}`);
    }
    return DONE;
  }

  /** Uses the existing subscription. If the tenant names a plan, it switches to that plan. */
  async #reuse(
    tenant: Tenant,
    ids: LagoIds,
    wanted: LagoPlan,
    signal: AbortSignal,
  ): Promise<ProvisionOutcome> {
    const { name, plans, clock, logger } = this.#options;
    const found = await this.#active(tenant, signal);
    if (found.kind !== 'subscription') return found;
    const { subscription: current } = found;
    logger.info(`[${name}] subscription ${ids.subscription} already exists, reused`);
    const { planCode, nextPlanCode } = current;
    if (tenant.plan === undefined || tenant.plan === nextPlanCode) return handOver(current);
    if (tenant.plan === planCode) {
      return nextPlanCode === undefined ? DONE : this.#callOff(tenant, current, signal);
    }
    const before = await plans.find(planCode, signal);
    if (before.kind === 'plan' && wanted.yearlyCents < before.plan.yearlyCents) {
      const requested = await this.#query(tenant, wanted.code, signal);
      return requested.kind === 'subscription' ? handOver(requested.subscription) : requested;
    }
    return drain(current, wanted.code, clock.now());
  }

  /** Cancels a waiting plan. Only deletion cancels it; requesting the current plan does not. */
  async #callOff(
    tenant: Tenant,
    { externalId, nextPlanCode }: LagoSubscription,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { name, client, logger } = this.#options;
    const path = `/subscriptions/${encodeURIComponent(externalId)}?status=pending`;
    const answer = await client.call('DELETE', path, undefined, signal);
    const gone = answer.kind === 'refused' && answer.code === 'subscription_not_found';
    if (answer.kind !== 'ok' && !gone) return failedStep(answer);
    const found = await this.#active(tenant, signal);
    if (found.kind !== 'subscription') return found;
    const plan = quote(nextPlanCode ?? '');
    logger.info(`[${name}] tenant ${tenant.id}: the change to plan ${plan} is cancelled`);
    return DONE;
  }

  /** Requests another plan. */
  async #query(tenant: Tenant, plan: string, signal: AbortSignal): Promise<Existing | FailedStep> {
    const { name, logger } = this.#options;
    const ids = idsOf(tenant);
    const subscription = {
      external_customer_id: ids.customer,
      plan_code: plan,
      external_id: ids.subscription,
    };
    const made = await this.#post(subscription, signal);
    if (made.kind !== 'subscription') return made;
    const isOn = made.subscription.planCode === plan;
    const when = isOn ? 'is on' : 'comes at the end of the period to';
    logger.info(`[${name}] tenant ${tenant.id} ${when} plan ${plan}`);
    return made;
  }

  /** Posts a subscription, and reads the active one from the answer. */
  async #post(subscription: object, signal: AbortSignal): Promise<Existing | FailedStep> {
    const { client, subscriptions } = this.#options;
    const answer = await client.call('POST', '/subscriptions', { subscription }, signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    const active = subscriptionOf(answer.body);
    if (active === undefined) return { kind: 'retry', reason: 'no subscription in the answer' };
    subscriptions.add(active);
    return { kind: 'subscription', subscription: active };
  }

  /** Returns the subscription as it is now. */
  async #active(tenant: Tenant, signal: AbortSignal): Promise<Existing | FailedStep> {
    const { client, subscriptions } = this.#options;
    const { subscription: externalId } = idsOf(tenant);
    const answer = await findActive(client, externalId, signal);
    if (answer.kind === 'none') {
      return {
        kind: 'retry',
        reason: `Lago has no such active subscription: ${quote(externalId)}`,
      };
    }
    if (answer.kind !== 'subscription') return failedStep(answer);
    subscriptions.add(answer.subscription);
    return answer;
  }

  /** Returns the change. The old plan's last invoice stays a draft for the days of grace. */
  async #changed(
    tenant: Tenant,
    { startedAt }: LagoSubscription,
    signal: AbortSignal,
  ): Promise<ChangeOutcome> {
    const customer = this.#customers.get(tenant.id) ?? ANY_CUSTOMER;
    const days = await graceDaysOf(this.#options.client, customer, signal);
    const lateUntil = days === 0 ? undefined : dayAfter(startedAt, days, customer.zone);
    // Events have full seconds, and usage at the moment itself also belongs to the old plan.
    const from = Math.floor(startedAt / 1_000) * 1_000 + 1_000;
    return { kind: 'changed', from, lateUntil };
  }
}
