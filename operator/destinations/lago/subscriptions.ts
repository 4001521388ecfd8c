import pLimit from 'p-limit';
import { greatest } from '../../model/extremes.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, textOf, timeOf } from '../json.ts';
import { BILLING_RUN_MS } from './billing-period.ts';
import type { LagoIds } from './customers.ts';
import type { LagoClient } from './lago-client.ts';

/** How often the subscriptions at Lago are listed again. */
const CHECK_EVERY_MS = 600_000;
/** The wait after a failed list; events do not wait for it. */
const RETRY_AFTER_MS = 60_000;
const CONCURRENT_POLLS = 4;
/** The largest accepted lag of our clock behind Lago's. */
const CLOCKS_DIFFER_MS = 300_000;

/** A tenant's plan for a time. A change of plan begins another with the same external id. */
export interface LagoSubscription {
  readonly externalId: string;
  readonly customer: string;
  readonly planCode: string;
  /** The plan that takes over when the period ends. */
  readonly nextPlanCode: string | undefined;
  /** Milliseconds since the epoch. Earlier usage does not belong to this subscription. */
  readonly startedAt: number;
  /** The start of the current billing period, no earlier than `startedAt`; undefined once ended. */
  readonly periodStartedAt: number | undefined;
  /** The first moment of the next billing period; undefined once ended. */
  readonly periodEndsAt: number | undefined;
  /** Milliseconds since the epoch, in full seconds as Lago reports it. */
  readonly terminatedAt: number | undefined;
  /** True if its end was not invoiced. A successor that begins earlier may then bill its usage. */
  readonly endedUnbilled: boolean;
}

export type SubscriptionAnswer =
  | { readonly kind: 'subscription'; readonly subscription: LagoSubscription }
  | { readonly kind: 'none' }
  | ApiProblem;

/** Returns the active subscription of an external id. */
export async function findActive(
  client: LagoClient,
  externalId: string,
  signal: AbortSignal,
): Promise<SubscriptionAnswer> {
  const answer = await client.get(`/subscriptions/${encodeURIComponent(externalId)}`, signal);
  if (answer.kind === 'refused' && answer.code === 'subscription_not_found') {
    return { kind: 'none' };
  }
  if (answer.kind !== 'ok') return answer;
  const subscription = subscriptionOf(answer.body);
  return subscription === undefined
    ? { kind: 'retry', reason: 'no subscription in the answer' }
    : { kind: 'subscription', subscription };
}

export type EndedAnswer =
  | {
      readonly kind: 'ended';
      /**
       * The first moment that no final invoice of an ended subscription covers, milliseconds since
       * the epoch; 0 without one.
       */
      readonly invoicedUntil: number;
    }
  | ApiProblem;

/**
 * Returns until when the ended subscriptions of an external id are invoiced. If a new subscription
 * is requested for an earlier moment of the same day, Lago creates it and bills the overlap twice.
 */
export async function endedSubscriptions(
  client: LagoClient,
  ids: LagoIds,
  signal: AbortSignal,
): Promise<EndedAnswer> {
  const query = new URLSearchParams({
    external_customer_id: ids.customer,
    external_id: ids.subscription,
    'status[]': 'terminated',
  });
  const list = await client.list(`/subscriptions?${query.toString()}`, 'subscriptions', signal);
  if (list.kind !== 'list') return list;
  const ends = list.items
    .map(readSubscription)
    .filter(({ externalId, endedUnbilled }) => externalId === ids.subscription && !endedUnbilled)
    // Lago reports an end in full seconds, and the last second belongs to the ended subscription.
    .map(({ terminatedAt }) => (terminatedAt === undefined ? 0 : terminatedAt + 1_000));
  return { kind: 'ended', invoicedUntil: greatest([0, ...ends]) };
}

/**
 * Returns until when a subscription must not end or change, because Lago has not yet invoiced the
 * previous period. Undefined when there is no such period, or it is invoiced.
 */
export function billingRunUntil(
  { startedAt, periodStartedAt }: LagoSubscription,
  now: number,
): number | undefined {
  if (periodStartedAt === undefined || periodStartedAt <= startedAt) return undefined;
  const since = now - periodStartedAt;
  const isRunning = since >= -CLOCKS_DIFFER_MS && since < BILLING_RUN_MS;
  return isRunning ? periodStartedAt + BILLING_RUN_MS : undefined;
}

/**
 * Tracks active subscriptions. Lago accepts events without an active subscription and never bills
 * them, so the sender checks each subscription first
 * (docs/how-to/destinations/lago.md#how-lago-answers).
 */
export class ActiveSubscriptions {
  readonly #client: LagoClient;
  readonly #clock: Clock;
  readonly #defaultPlan: string;
  #byId = new Map<string, LagoSubscription>();
  #nextCheck = Number.NEGATIVE_INFINITY;

  constructor(client: LagoClient, clock: Clock, defaultPlan: string) {
    this.#client = client;
    this.#clock = clock;
    this.#defaultPlan = defaultPlan;
  }

  find(externalId: string): LagoSubscription | undefined {
    return this.#byId.get(externalId);
  }

  /** Records a subscription from Lago's answer. */
  add(subscription: LagoSubscription): void {
    this.#byId.set(subscription.externalId, subscription);
  }

  remove(externalId: string): void {
    this.#byId.delete(externalId);
  }

  /**
   * Lists subscriptions again when the last list is old, and keeps the known ones after a failure.
   * Other systems may use the same Lago, so it lists only subscriptions of plans in use here.
   */
  async refresh(signal: AbortSignal): Promise<ApiProblem | undefined> {
    const now = this.#clock.monotonic();
    if (now < this.#nextCheck) return undefined;
    this.#nextCheck = now + RETRY_AFTER_MS;
    const known = [...this.#byId.values()];
    const plans = new Set([this.#defaultPlan, ...known.map(({ planCode }) => planCode)]);
    const found = new Map<string, LagoSubscription>();
    for (const plan of plans) {
      const query = new URLSearchParams({ plan_code: plan });
      const path = `/subscriptions?${query.toString()}`;
      const list = await this.#client.list(path, 'subscriptions', signal);
      if (list.kind !== 'list') return list;
      for (const item of list.items) {
        const subscription = readSubscription(item);
        found.set(subscription.externalId, subscription);
      }
    }
    // A subscription that moved to another plan is on none of these lists.
    const missing = known.filter(({ externalId }) => !found.has(externalId));
    const answers = await pLimit(CONCURRENT_POLLS).map(missing, ({ externalId }) =>
      findActive(this.#client, externalId, signal),
    );
    for (const answer of answers) {
      if (answer.kind === 'subscription') {
        found.set(answer.subscription.externalId, answer.subscription);
      } else if (answer.kind !== 'none') return answer;
    }
    this.#byId = found;
    this.#nextCheck = now + CHECK_EVERY_MS;
    return undefined;
  }
}

export function readSubscription(object: JsonObject): LagoSubscription {
  const start = textOf(object, 'started_at') ?? textOf(object, 'subscription_at') ?? '';
  const end = secondOf(object, 'current_billing_period_ending_at');
  return {
    externalId: textOf(object, 'external_id') ?? '',
    customer: textOf(object, 'external_customer_id') ?? '',
    planCode: textOf(object, 'plan_code') ?? '',
    nextPlanCode: textOf(object, 'next_plan_code'),
    startedAt: Date.parse(start) || 0,
    periodStartedAt: secondOf(object, 'current_billing_period_started_at'),
    // A period includes both its ends: its last second is the one before the next period.
    periodEndsAt: end === undefined ? undefined : end + 1_000,
    terminatedAt: secondOf(object, 'terminated_at'),
    endedUnbilled: textOf(object, 'on_termination_invoice') === 'skip',
  };
}

/** Returns the time of a field in full seconds, as ms since the epoch; undefined without one. */
function secondOf(object: JsonObject, field: string): number | undefined {
  const at = timeOf(object, field);
  return at === undefined ? undefined : Math.floor(at / 1_000) * 1_000;
}

/** Returns the subscription in an answer; undefined without one. */
export function subscriptionOf(body: JsonObject): LagoSubscription | undefined {
  const object = body['subscription'];
  return isRecord(object) ? readSubscription(object) : undefined;
}
