import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/quote.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ChangeOutcome, ProvisionOutcome, StepOutcome } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import { type ApiList, type ApiProblem, failedStep } from '../json-api/answer.ts';
import type { Losses } from './losses.ts';
import { missingPrices, type PlanQuestion, planChanges } from './plan-changes.ts';
import { priceProblem, type StripePrice, type StripePrices } from './prices.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeClient } from './stripe-client.ts';
import { OFFBOARDED_KEY, readSubscription, type StripeSubscription } from './subscription.ts';
import { pathOf, SubscriptionWriter, SUBSCRIPTIONS } from './subscription-writer.ts';
import type { Reach, UninvoicedUsage } from './uninvoiced.ts';

/** How often a tenant's subscriptions are read, even without new prices. */
const POLL_AGAIN_MS = 3_600_000;
/** Bound of tenants checked before one batch of events: some seconds' worth of requests. */
const MAX_AT_ONCE = 30;

const DONE: StepOutcome = { kind: 'done' };

/** The billing period of a tenant's subscription, milliseconds since the epoch. */
export interface Period {
  readonly customer: string;
  readonly start: number;
  readonly end: number;
}

interface Subscribed {
  readonly tenant: Tenant;
  readonly customer: string;
  /** The ids of its prices, as one text. */
  readonly prices: string;
  readonly checkAgainAt: number;
  /** Its subscriptions as last read. */
  readonly subscriptions: readonly StripeSubscription[];
}

/** Subscribes each tenant to the prices of its plan, where BILLING_A_AUTO_SUBSCRIBE is set. */
export class StripeSubscriptions {
  readonly #options;
  readonly #writer: SubscriptionWriter;
  readonly #subscribed = new Map<string, Subscribed>();
  readonly #losses: Losses;

  constructor(options: {
    readonly name: string;
    readonly settings: StripeSettings;
    readonly client: StripeClient;
    readonly prices: StripePrices;
    readonly uninvoiced: UninvoicedUsage;
    readonly losses: Losses;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
    this.#writer = new SubscriptionWriter(options);
    this.#losses = options.losses;
  }

  /**
   * Compares the subscriptions with the plan, and returns `drain` if a charge must change. It
   * changes no charge itself. A price charges usage from its own time on, and a cancelled
   * subscription is invoiced once. All earlier usage must therefore be delivered first.
   */
  async subscribe(
    tenant: Tenant,
    customer: string,
    signal: AbortSignal,
  ): Promise<ProvisionOutcome> {
    const poll = await this.#poll(tenant, customer, signal);
    if (poll.kind !== 'read') return poll;
    const { question } = poll;
    const answer = planChanges({ ...question, since: new Map() });
    if (answer.kind === 'blocked') return { kind: 'rejected', reason: answer.reason };
    for (const change of answer.changes.filter(({ kind }) => kind === 'note')) {
      const outcome = await this.#writer.write(tenant, customer, change, question, signal);
      if (outcome.kind !== 'done') return outcome;
    }
    this.#remember(tenant, customer, question.subscriptions);
    if (answer.changes.every(({ kind }) => kind === 'note')) return DONE;
    const reason = `the subscriptions of tenant ${quote(tenant.id)} change: its usage must be delivered first`;
    const current = ownPlan(question) ?? '';
    const before = this.#options.clock.now();
    return { kind: 'drain', reason, before, current, wanted: question.plan };
  }

  /** Makes the changes of charges. The caller has delivered all usage so far. */
  async change(tenant: Tenant, customer: string, signal: AbortSignal): Promise<ChangeOutcome> {
    const poll = await this.#poll(tenant, customer, signal);
    if (poll.kind !== 'read') return poll;
    const reached = await this.#reach(tenant, customer, poll.question, signal);
    if (reached.kind !== 'reached') return reached;
    const answer = planChanges(reached.question);
    if (answer.kind === 'blocked') return { kind: 'rejected', reason: answer.reason };
    for (const change of answer.changes) {
      const outcome = await this.#writer.write(tenant, customer, change, reached.question, signal);
      if (outcome.kind !== 'done') return outcome;
    }
    const listed = await this.#list(customer, signal);
    if (listed.kind !== 'list') return failedStep(listed);
    const subscriptions = listed.items.map(readSubscription);
    this.#remember(tenant, customer, subscriptions);
    const added = subscriptions
      .filter((one) => one.live && one.tenant === tenant.id)
      .flatMap(({ items }) => items.map(({ created }) => created));
    return { kind: 'changed', from: Math.max(0, ...added) * 1000 };
  }

  /**
   * Checks tenants whose prices changed or whose last check is old, a bounded number at a time, so
   * that usage goes on. Returns the failures, and the tenants that must be provisioned again.
   */
  async checkDue(
    tenants: Iterable<string>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, FailedStep>> {
    const { prices, clock } = this.#options;
    const failures = new Map<string, FailedStep>();
    const known = [...tenants].flatMap((tenant) => this.#subscribed.get(tenant) ?? []);
    // Usage goes on while prices are unreadable.
    if (known.length === 0 || (await prices.refresh(signal)) !== undefined) return failures;
    const due = known.filter(
      ({ tenant, prices: before, checkAgainAt }) =>
        clock.monotonic() >= checkAgainAt || before !== textOfPrices(this.#pricesFor(tenant)),
    );
    for (const { tenant, customer } of due.slice(0, MAX_AT_ONCE)) {
      const outcome = await this.subscribe(tenant, customer, signal);
      if (outcome.kind === 'drain') {
        failures.set(tenant.id, { kind: 'rejected', reason: outcome.reason });
      } else if (outcome.kind !== 'done') failures.set(tenant.id, outcome);
    }
    return failures;
  }

  /** Cancels a tenant's subscriptions at the end of their period (BILLING_A_CANCEL_ON_REMOVE). */
  async cancel(tenant: string, customer: string, signal: AbortSignal): Promise<StepOutcome> {
    this.#subscribed.delete(tenant);
    this.#losses.forget(tenant);
    const listed = await this.#list(customer, signal);
    if (listed.kind === 'refused' && listed.code === 'resource_missing') return DONE;
    if (listed.kind !== 'list') return failedStep(listed);
    const own = listed.items
      .map(readSubscription)
      .filter((subscription) => subscription.live && subscription.tenant === tenant);
    for (const { id, cancelAtPeriodEnd } of own) {
      if (cancelAtPeriodEnd) continue;
      const params = { cancel_at_period_end: true, metadata: { [OFFBOARDED_KEY]: 'true' } };
      const answer = await this.#options.client.update(pathOf(id), params, signal);
      if (answer.kind !== 'ok') return failedStep(answer);
    }
    return DONE;
  }

  /** Returns the plan that a tenant is subscribed to; undefined before its first subscription. */
  planOf(tenant: string): string | undefined {
    const known = this.#subscribed.get(tenant);
    return known && this.#planOf(known.tenant);
  }

  /** Returns the current period of a subscription with another plan than the wanted one. */
  outgoingPeriodOf(tenant: string): Period | undefined {
    const wanted = this.planOf(tenant);
    return this.#periodOf(tenant, ({ plan }) => plan !== wanted);
  }

  /** Returns the current period, in which an added price still bills earlier usage. */
  periodOf(tenant: string): Period | undefined {
    return this.#periodOf(tenant, () => true);
  }

  #periodOf(
    tenant: string,
    isMeant: (subscription: StripeSubscription) => boolean,
  ): Period | undefined {
    const known = this.#subscribed.get(tenant);
    const now = this.#options.clock.now() / 1000;
    const running = known?.subscriptions.find(
      (one) => one.live && one.tenant === tenant && one.periodEnd > now && isMeant(one),
    );
    if (known === undefined || running === undefined) return undefined;
    const { periodStart, periodEnd } = running;
    return { customer: known.customer, start: periodStart * 1000, end: periodEnd * 1000 };
  }

  #planOf({ plan }: Tenant): string {
    return plan ?? this.#options.settings.planCode;
  }

  #currencyOf({ currency }: Tenant): string {
    return currency ?? this.#options.settings.currency;
  }

  #pricesFor(tenant: Tenant): readonly StripePrice[] {
    const plan = this.#planOf(tenant);
    const currency = this.#currencyOf(tenant);
    return (this.#options.prices.current() ?? []).filter(
      (price) => price.plan === plan && price.currencies.includes(currency),
    );
  }

  #list(customer: string, signal: AbortSignal): Promise<ApiList> {
    return this.#options.client.list(SUBSCRIPTIONS, { customer, status: 'all' }, signal);
  }

  #remember(tenant: Tenant, customer: string, subscriptions: readonly StripeSubscription[]): void {
    const checkAgainAt = this.#options.clock.monotonic() + POLL_AGAIN_MS;
    const prices = textOfPrices(this.#pricesFor(tenant));
    this.#subscribed.set(tenant.id, {
      tenant,
      customer,
      prices,
      checkAgainAt,
      subscriptions,
    });
  }

  async #poll(
    tenant: Tenant,
    customer: string,
    signal: AbortSignal,
  ): Promise<
    { readonly kind: 'read'; readonly question: Omit<PlanQuestion, 'since'> } | FailedStep
  > {
    const { settings, prices } = this.#options;
    const failed = await prices.refresh(signal);
    if (failed !== undefined) return failedStep(failed);
    const problem = priceProblem(tenant, settings, prices.current() ?? []);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const listed = await this.#list(customer, signal);
    if (listed.kind !== 'list') return failedStep(listed);
    const subscriptions = listed.items.map(readSubscription);
    this.#losses.see(tenant.id, subscriptions);
    const question = {
      tenant: tenant.id,
      plan: this.#planOf(tenant),
      currency: this.#currencyOf(tenant),
      prices: this.#pricesFor(tenant),
      subscriptions,
      from: Math.floor((tenant.billableFrom ?? tenant.createdAt) / 1000),
      present: tenant.clusters.length > 0,
    };
    return { kind: 'read', question };
  }

  /** Finds from when on the new charges must bill usage. */
  async #reach(
    tenant: Tenant,
    customer: string,
    question: Omit<PlanQuestion, 'since'>,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'reached'; readonly question: PlanQuestion } | FailedStep> {
    const { uninvoiced } = this.#options;
    const { subscriptions } = question;
    const own = subscriptions.filter((one) => one.live && one.tenant === tenant.id);
    const since = new Map<string, number>();
    if (own.length === 0) {
      const end = await uninvoiced.afterEnd(tenant.id, subscriptions, signal);
      if (isProblem(end)) return failedStep(end);
      const from = end.kind === 'from' ? Math.max(end.at, question.from) : question.from;
      return { kind: 'reached', question: { ...question, from, since } };
    }
    const periodStart = Math.max(...own.map((one) => one.periodStart));
    for (const price of missingPrices(question)) {
      const reach = await uninvoiced.ofMeter(price, customer, subscriptions, periodStart, signal);
      if (isProblem(reach)) return failedStep(reach);
      if (reach.kind === 'from') since.set(price.meter, reach.at);
      if (reach.kind === 'unclear') this.#losses.unclear(tenant.id, price, reach.since);
    }
    return { kind: 'reached', question: { ...question, since } };
  }
}

function ownPlan({ subscriptions, tenant }: Omit<PlanQuestion, 'since'>): string | undefined {
  return subscriptions.find((one) => one.live && one.tenant === tenant)?.plan;
}

function isProblem(reach: Reach): reach is ApiProblem {
  return reach.kind !== 'from' && reach.kind !== 'nothing' && reach.kind !== 'unclear';
}

function textOfPrices(prices: readonly StripePrice[]): string {
  return prices
    .map(({ id }) => id)
    .toSorted()
    .join();
}
