import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { FailedStep, StepOutcome } from '../destination.ts';
import { type ApiList, failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { TENANT_KEY } from './customers.ts';
import {
  type ItemChange,
  OFFBOARDED_KEY,
  planChanges,
  readSubscription,
  type SubscriptionChange,
} from './plan-changes.ts';
import { PLAN_KEY, type StripePrice, type StripePrices } from './prices.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeClient } from './stripe-client.ts';

const SUBSCRIPTIONS = '/v1/subscriptions';
/** How often a tenant's subscriptions are looked at, whether or not prices have changed. */
const LOOK_AGAIN_MS = 3_600_000;
/** Tenants that are looked at before one batch of events: some seconds' worth of requests. */
const MAX_AT_ONCE = 30;
/** Creations in a row that give a subscription that was there before. */
const MAX_REPEATS = 5;

const DONE: StepOutcome = { kind: 'done' };

export interface SubscriptionsOptions {
  readonly name: string;
  readonly settings: StripeSettings;
  readonly client: StripeClient;
  readonly prices: StripePrices;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Subscribed {
  readonly tenant: Tenant;
  readonly customer: string;
  /** The prices it was subscribed to, as one text. */
  readonly prices: string;
  readonly lookAgainAt: number;
}

/** Keeps each tenant subscribed to the prices of its plan, where BILLING_A_AUTO_SUBSCRIBE says so. */
export class StripeSubscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #subscribed = new Map<string, Subscribed>();

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  async subscribe(tenant: Tenant, customer: string, signal: AbortSignal): Promise<StepOutcome> {
    const { settings, prices, clock } = this.#options;
    const failed = await prices.refresh(signal);
    if (failed !== undefined) return failedStep(failed);
    const problem = priceProblem(tenant, settings, prices.current() ?? []);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const wanted = this.#pricesFor(tenant);
    const listed = await this.#list(customer, signal);
    if (listed.kind !== 'list') return failedStep(listed);
    const subscriptions = listed.items.map(readSubscription);
    const changes = planChanges({
      tenant: tenant.id,
      plan: this.#planOf(tenant),
      prices: wanted,
      subscriptions,
      billableFrom: Math.floor((tenant.billableFrom ?? tenant.createdAt) / 1000),
      present: tenant.clusters.length > 0,
    });
    const known = new Set(subscriptions.map(({ id }) => id));
    for (const change of changes) {
      const outcome =
        change.kind === 'create'
          ? await this.#create(tenant, customer, change, known, signal)
          : await this.#change(tenant, change, signal);
      if (outcome.kind !== 'done') return outcome;
    }
    const lookAgainAt = clock.monotonic() + LOOK_AGAIN_MS;
    this.#subscribed.set(tenant.id, {
      tenant,
      customer,
      prices: textOfPrices(wanted),
      lookAgainAt,
    });
    return DONE;
  }

  /**
   * Does it again for those of the tenants whose prices have changed since, or that were not looked at
   * for long; for some of them at a time, so that usage goes on meanwhile. Gives what went wrong.
   */
  async keepUp(
    tenants: Iterable<string>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, FailedStep>> {
    const { prices, clock } = this.#options;
    const failures = new Map<string, FailedStep>();
    const known = [...tenants].flatMap((tenant) => this.#subscribed.get(tenant) ?? []);
    // Usage goes on while prices cannot be read.
    if (known.length === 0 || (await prices.refresh(signal)) !== undefined) return failures;
    const due = known.filter(
      ({ tenant, prices: before, lookAgainAt }) =>
        clock.monotonic() >= lookAgainAt || before !== textOfPrices(this.#pricesFor(tenant)),
    );
    for (const { tenant, customer } of due.slice(0, MAX_AT_ONCE)) {
      const outcome = await this.subscribe(tenant, customer, signal);
      if (outcome.kind !== 'done') failures.set(tenant.id, outcome);
    }
    return failures;
  }

  /** Cancels what was subscribed, at the end of its period (BILLING_A_CANCEL_ON_REMOVE). */
  async cancel(tenant: string, customer: string, signal: AbortSignal): Promise<StepOutcome> {
    this.#subscribed.delete(tenant);
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

  /** The plan that a tenant was subscribed to; undefined where it was not, or not yet. */
  planOf(tenant: string): string | undefined {
    const known = this.#subscribed.get(tenant);
    return known && this.#planOf(known.tenant);
  }

  #planOf({ plan }: Tenant): string {
    return plan ?? this.#options.settings.planCode;
  }

  #pricesFor(tenant: Tenant): readonly StripePrice[] {
    const { settings, prices } = this.#options;
    const plan = this.#planOf(tenant);
    const wanted = tenant.currency ?? settings.currency;
    return (prices.current() ?? []).filter(
      (price) => price.plan === plan && price.currency === wanted,
    );
  }

  #list(customer: string, signal: AbortSignal): Promise<ApiList> {
    return this.#options.client.list(SUBSCRIPTIONS, { customer, status: 'all' }, signal);
  }

  async #create(
    tenant: Tenant,
    customer: string,
    change: Extract<SubscriptionChange, { kind: 'create' }>,
    known: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { name, client, clock, logger } = this.#options;
    const now = Math.floor(clock.now() / 1000);
    const plan = this.#planOf(tenant);
    const params = {
      customer,
      items: change.prices.map((price) => ({ price })),
      metadata: { [TENANT_KEY]: tenant.id, [PLAN_KEY]: plan },
      backdate_start_date: change.from !== undefined && change.from < now ? change.from : undefined,
    };
    for (let repeat = 0; repeat < MAX_REPEATS; repeat += 1) {
      const answer = await client.create(SUBSCRIPTIONS, params, signal);
      if (answer.kind !== 'ok') return failedStep(answer);
      // A result that is given again is that of a subscription which has ended since.
      if (known.has(textOf(answer.body, 'id') ?? '')) {
        client.makeAnew(SUBSCRIPTIONS, params);
        continue;
      }
      const count = change.prices.length;
      logger.info(`[${name}] subscribed tenant ${tenant.id} to ${count} prices of plan ${plan}`);
      return DONE;
    }
    return { kind: 'retry', reason: `subscriptions of tenant ${quote(tenant.id)} keep ending` };
  }

  async #change(
    tenant: Tenant,
    change: Exclude<SubscriptionChange, { kind: 'create' }>,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { name, client, logger } = this.#options;
    const path = pathOf(change.subscription);
    const answer =
      change.kind === 'cancel'
        ? await client.delete(path, { invoice_now: true, prorate: false }, signal)
        : await client.update(path, updateParams(change, this.#planOf(tenant)), signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    const verb = change.kind === 'cancel' ? 'ended' : 'changed';
    logger.info(`[${name}] ${verb} subscription ${change.subscription} of tenant ${tenant.id}`);
    return DONE;
  }
}

function pathOf(subscription: string): string {
  return `${SUBSCRIPTIONS}/${encodeURIComponent(subscription)}`;
}

function updateParams(
  { items, resume }: Extract<SubscriptionChange, { kind: 'update' }>,
  plan: string,
) {
  return {
    ...(items.length > 0 && { items: items.map(itemParams) }),
    ...(resume && { cancel_at_period_end: false }),
    metadata: { [PLAN_KEY]: plan, ...(resume && { [OFFBOARDED_KEY]: '' }) },
    proration_behavior: 'none',
  };
}

function itemParams(change: ItemChange): Readonly<Record<string, string | boolean>> {
  return { ...change };
}

function textOfPrices(prices: readonly StripePrice[]): string {
  return prices
    .map(({ id }) => id)
    .toSorted()
    .join();
}

/**
 * Why a tenant cannot be subscribed: a plan of its own that no price is tagged with, or prices in other
 * currencies only. The default plan may be without prices until somebody sets them.
 */
function priceProblem(
  tenant: Tenant,
  settings: StripeSettings,
  all: readonly StripePrice[],
): string | undefined {
  const plan = tenant.plan ?? settings.planCode;
  const currency = tenant.currency ?? settings.currency;
  const tagged = all.filter((price) => price.plan === plan);
  if (tagged.length === 0) {
    if (plan === settings.planCode) return undefined;
    return `no active metered price in Stripe has metadata[${PLAN_KEY}]: plan: ${quote(plan)}`;
  }
  if (tagged.some((price) => price.currency === currency)) return undefined;
  const currencies = [...new Set(tagged.map((price) => price.currency))].toSorted().join(', ');
  return `plan ${quote(plan)} is priced in ${currencies}: currency: ${quote(currency)}`;
}
