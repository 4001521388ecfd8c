import type { StripeSettings } from './settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/validate-event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { FailedStep, StepOutcome } from '../destination.ts';
import { type ApiAnswer, failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { TENANT_KEY } from './customers.ts';
import {
  type ItemChange,
  OFFBOARDED_KEY,
  planChanges,
  readSubscription,
  type StripeSubscription,
  type SubscriptionChange,
} from './plan-changes.ts';
import { PLAN_KEY, type StripePrice, type StripePrices } from './prices.ts';
import type { StripeClient } from './stripe-client.ts';

const SUBSCRIPTIONS = '/v1/subscriptions';
/** How often a tenant's subscriptions are looked at, whether or not prices have changed. */
const LOOK_AGAIN_MS = 3_600_000;
/** Tenants that are looked at before one batch of events: some seconds' worth of requests. */
const MAX_AT_ONCE = 30;
/** Creations in a row that give a subscription that was there before. */
const MAX_REPEATS = 5;

const DONE: StepOutcome = { kind: 'done' };

/** Keeps each tenant subscribed to the prices of its plan (spec 1.4, BILLING_A_AUTO_SUBSCRIBE). */
export interface StripeSubscriptions {
  subscribe(tenant: Tenant, customer: string, signal: AbortSignal): Promise<StepOutcome>;
  /**
   * Does it again for those of the tenants whose prices have changed since, or that were not looked at
   * for long; for some of them at a time, so that usage goes on meanwhile. Gives what went wrong.
   */
  keepUp(tenants: Iterable<string>, signal: AbortSignal): Promise<ReadonlyMap<string, FailedStep>>;
  /** Cancels what was subscribed, at the end of its period (BILLING_A_CANCEL_ON_REMOVE). */
  cancel(tenant: string, customer: string, signal: AbortSignal): Promise<StepOutcome>;
  /** The prices that a tenant is charged by; undefined while they are not known. */
  pricesOf(
    tenant: string,
  ): { readonly plan: string; readonly meters: ReadonlySet<string> } | undefined;
}

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

export function createStripeSubscriptions(options: SubscriptionsOptions): StripeSubscriptions {
  const { name, settings, client, prices, clock, logger } = options;
  const subscribed = new Map<string, Subscribed>();

  const planOf = (tenant: Tenant): string => tenant.plan ?? settings.planCode;
  const pricesFor = (tenant: Tenant): readonly StripePrice[] => {
    const currency = tenant.currency ?? settings.currency;
    return (prices.current() ?? []).filter(
      (price) => price.plan === planOf(tenant) && price.currency === currency,
    );
  };

  const list = async (customer: string, signal: AbortSignal) =>
    client.list(SUBSCRIPTIONS, { customer, status: 'all' }, signal);

  const create = async (
    tenant: Tenant,
    customer: string,
    change: Extract<SubscriptionChange, { kind: 'create' }>,
    known: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    const now = Math.floor(clock.now() / 1000);
    const from = change.from !== undefined && change.from < now ? change.from : undefined;
    const params = {
      customer,
      items: change.prices.map((price) => ({ price })),
      metadata: { [TENANT_KEY]: tenant.id, [PLAN_KEY]: planOf(tenant) },
      backdate_start_date: from,
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
      logger.info(
        `[${name}] subscribed tenant ${tenant.id} to ${count} prices of plan ${planOf(tenant)}`,
      );
      return DONE;
    }
    return { kind: 'retry', reason: `subscriptions of tenant ${quote(tenant.id)} keep ending` };
  };

  const apply = async (
    tenant: Tenant,
    customer: string,
    change: SubscriptionChange,
    known: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    if (change.kind === 'create') return create(tenant, customer, change, known, signal);
    const path = `${SUBSCRIPTIONS}/${encodeURIComponent(change.subscription)}`;
    const answer: ApiAnswer =
      change.kind === 'cancel'
        ? await client.delete(path, { invoice_now: true, prorate: false }, signal)
        : await client.update(path, updateParams(change, planOf(tenant)), signal);
    if (answer.kind !== 'ok') return failedStep(answer);
    const verb = change.kind === 'cancel' ? 'ended' : 'changed';
    logger.info(`[${name}] ${verb} subscription ${change.subscription} of tenant ${tenant.id}`);
    return DONE;
  };

  const subscribe: StripeSubscriptions['subscribe'] = async (tenant, customer, signal) => {
    const failed = await prices.refresh(signal);
    if (failed !== undefined) return failedStep(failed);
    const problem = priceProblem(tenant, settings, prices.current() ?? []);
    if (problem !== undefined) return { kind: 'rejected', reason: problem };
    const wanted = pricesFor(tenant);
    const listed = await list(customer, signal);
    if (listed.kind !== 'list') return failedStep(listed);
    const subscriptions = listed.items.map(readSubscription);
    const changes = planChanges({
      tenant: tenant.id,
      plan: planOf(tenant),
      prices: wanted,
      subscriptions,
      billableFrom: Math.floor((tenant.billableFrom ?? tenant.createdAt) / 1000),
      present: tenant.clusters.length > 0,
    });
    const known = new Set(subscriptions.map(({ id }) => id));
    for (const change of changes) {
      const outcome = await apply(tenant, customer, change, known, signal);
      if (outcome.kind !== 'done') return outcome;
    }
    subscribed.set(tenant.id, {
      tenant,
      customer,
      prices: textOfPrices(wanted),
      lookAgainAt: clock.monotonic() + LOOK_AGAIN_MS,
    });
    return DONE;
  };

  const cancelOne = async (
    { id, cancelAtPeriodEnd }: StripeSubscription,
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    if (cancelAtPeriodEnd) return DONE;
    const params = { cancel_at_period_end: true, metadata: { [OFFBOARDED_KEY]: 'true' } };
    const answer = await client.update(
      `${SUBSCRIPTIONS}/${encodeURIComponent(id)}`,
      params,
      signal,
    );
    return answer.kind === 'ok' ? DONE : failedStep(answer);
  };

  return {
    subscribe,
    keepUp: async (tenants, signal) => {
      const troubles = new Map<string, FailedStep>();
      const known = [...tenants].flatMap((tenant) => subscribed.get(tenant) ?? []);
      // Usage goes on while prices cannot be read.
      if (known.length === 0 || (await prices.refresh(signal)) !== undefined) return troubles;
      const due = known.filter(
        ({ tenant, prices: before, lookAgainAt }) =>
          clock.monotonic() >= lookAgainAt || before !== textOfPrices(pricesFor(tenant)),
      );
      for (const { tenant, customer } of due.slice(0, MAX_AT_ONCE)) {
        const outcome = await subscribe(tenant, customer, signal);
        if (outcome.kind !== 'done') troubles.set(tenant.id, outcome);
      }
      return troubles;
    },
    cancel: async (tenant, customer, signal) => {
      subscribed.delete(tenant);
      const listed = await list(customer, signal);
      if (listed.kind === 'refused') {
        return listed.code === 'resource_missing' ? DONE : failedStep(listed);
      }
      if (listed.kind !== 'list') return failedStep(listed);
      const own = listed.items
        .map(readSubscription)
        .filter((subscription) => subscription.live && subscription.tenant === tenant);
      for (const subscription of own) {
        const outcome = await cancelOne(subscription, signal);
        if (outcome.kind !== 'done') return outcome;
      }
      return DONE;
    },
    pricesOf: (tenant) => {
      const known = subscribed.get(tenant);
      if (known === undefined) return undefined;
      const meters = new Set(pricesFor(known.tenant).map(({ meter }) => meter));
      return { plan: planOf(known.tenant), meters };
    },
  };
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
