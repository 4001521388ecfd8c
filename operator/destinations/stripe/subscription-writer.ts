import type { Tenant } from '../../model/tenant.ts';
import { quote } from '../../model/quote.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { StepOutcome } from '../destination.ts';
import { type ApiAnswer, failedStep } from '../json-api/answer.ts';
import { textOf } from '../json.ts';
import { keepCollecting } from './collection.ts';
import { TENANT_KEY } from './customers.ts';
import type { CreateChange, PlanQuestion, SubscriptionChange } from './plan-changes.ts';
import { PLAN_KEY } from './prices.ts';
import type { PaymentTerms, StripeSettings } from './settings.ts';
import type { Params, StripeClient } from './stripe-client.ts';
import { OFFBOARDED_KEY } from './subscription.ts';

export const SUBSCRIPTIONS = '/v1/subscriptions';
/** The bound of successive creations that return an earlier subscription. */
const MAX_REPEATS = 5;
/** Intervals with a billing day that can be chosen. */
const ANCHORED = /^(\d+ )?(month|year)$/;

const DONE: StepOutcome = { kind: 'done' };

/** Carries out the changes of subscriptions. */
export class SubscriptionWriter {
  readonly #options;

  constructor(options: {
    readonly name: string;
    readonly settings: StripeSettings;
    readonly client: StripeClient;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  async write(
    tenant: Tenant,
    customer: string,
    change: SubscriptionChange,
    question: PlanQuestion | Omit<PlanQuestion, 'since'>,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    if (change.kind === 'create') return this.#create(tenant, customer, change, question, signal);
    const { name, logger, client } = this.#options;
    const make = (): Promise<ApiAnswer> => this.#change(change, question.plan, signal);
    const answer =
      change.kind === 'end'
        ? await keepCollecting({ name, client, logger }, customer, make, signal)
        : await make();
    // Somebody else ended it in the meantime.
    const isGone = answer.kind === 'refused' && answer.code === 'resource_missing';
    if (answer.kind !== 'ok' && !(isGone && change.kind === 'end')) return failedStep(answer);
    const verb = change.kind === 'end' ? 'ended' : 'changed';
    logger.info(`[${name}] ${verb} subscription ${change.subscription} of tenant ${tenant.id}`);
    return DONE;
  }

  #change(
    change: Exclude<SubscriptionChange, CreateChange>,
    plan: string,
    signal: AbortSignal,
  ): Promise<ApiAnswer> {
    const { client } = this.#options;
    const path = pathOf(change.subscription);
    if (change.kind === 'end') {
      // The API's text requires one of the two, its guide both; metered prices are not prorated.
      return client.delete(path, { invoice_now: true, prorate: true }, signal);
    }
    const metadata = { [PLAN_KEY]: plan };
    if (change.kind === 'note') {
      const resumed = {
        cancel_at_period_end: false,
        metadata: { ...metadata, [OFFBOARDED_KEY]: '' },
      };
      return client.update(path, change.resume ? resumed : { metadata }, signal);
    }
    const items =
      change.kind === 'remove'
        ? change.items.map((id) => ({ id, deleted: true }))
        : change.prices.map((price) => ({ price }));
    const params = { items, metadata, proration_behavior: 'create_prorations' };
    return client.update(path, params, signal);
  }

  async #create(
    tenant: Tenant,
    customer: string,
    change: CreateChange,
    { plan, currency, prices, subscriptions }: PlanQuestion | Omit<PlanQuestion, 'since'>,
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { name, client, clock, logger, settings } = this.#options;
    const now = Math.floor(clock.now() / 1000);
    const chosen = prices.filter(({ id }) => change.prices.includes(id));
    const isOptional = chosen.some((price) => price.currency !== currency);
    const params = {
      customer,
      items: change.prices.map((price) => ({ price })),
      metadata: { [TENANT_KEY]: tenant.id, [PLAN_KEY]: plan },
      backdate_start_date: change.from !== undefined && change.from < now ? change.from : undefined,
      ...(isOptional && { currency: currency.toLowerCase() }),
      ...this.#anchor(change, chosen[0]?.interval ?? '', now),
      ...paymentParams(
        termsOf(tenant.billing?.netTermsDays, settings.payment, change.model?.payment),
      ),
    };
    const known = new Set(subscriptions.map(({ id }) => id));
    for (let repeat = 0; repeat < MAX_REPEATS; repeat += 1) {
      const answer = await client.create(SUBSCRIPTIONS, params, signal);
      if (answer.kind !== 'ok') return failedStep(answer);
      // A repeated answer names a subscription that has ended since.
      if (known.has(textOf(answer.body, 'id') ?? '')) {
        client.makeAgain(SUBSCRIPTIONS, params);
        continue;
      }
      const count = change.prices.length;
      logger.info(`[${name}] subscribed tenant ${tenant.id} to ${count} prices of plan ${plan}`);
      return DONE;
    }
    return { kind: 'retry', reason: `subscriptions of tenant ${quote(tenant.id)} keep ending` };
  }

  /**
   * Returns the billing day: that of the model, else the configured one. The day of an existing
   * subscription never changes.
   */
  #anchor({ model }: CreateChange, interval: string, now: number): Params {
    if (model !== undefined && model.periodEnd > now)
      return { billing_cycle_anchor: model.periodEnd };
    const { billingDay } = this.#options.settings;
    if (!ANCHORED.test(interval)) return {};
    const config = { day_of_month: billingDay, hour: 0, minute: 0, second: 0 };
    return { billing_cycle_anchor_config: config };
  }
}

/**
 * Returns the terms of payment. The tenant's days take precedence over the configuration, and that
 * over the previous subscription.
 */
function termsOf(
  days: number | undefined,
  configured: PaymentTerms = {},
  before: PaymentTerms = {},
): PaymentTerms {
  return {
    collectionMethod: configured.collectionMethod ?? before.collectionMethod,
    daysUntilDue: days ?? configured.daysUntilDue ?? before.daysUntilDue,
    automaticTax: configured.automaticTax ?? before.automaticTax,
    defaultPaymentMethod: configured.defaultPaymentMethod ?? before.defaultPaymentMethod,
  };
}

/** Returns only terms that are set, and leaves the others to Stripe's defaults. */
function paymentParams({
  collectionMethod,
  daysUntilDue,
  automaticTax,
  defaultPaymentMethod,
}: PaymentTerms): Params {
  const isSent = collectionMethod === 'send_invoice';
  return {
    ...(isSent && { collection_method: collectionMethod, days_until_due: daysUntilDue ?? 30 }),
    ...(automaticTax === true && { automatic_tax: { enabled: true } }),
    default_payment_method: defaultPaymentMethod,
  };
}

export function pathOf(subscription: string): string {
  return `${SUBSCRIPTIONS}/${encodeURIComponent(subscription)}`;
}
