import pLimit from 'p-limit';
import { greatest } from '../../model/extremes.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, textOf, timeOf } from '../json.ts';
import { BILLING_RUN_MS } from './billing-period.ts';
import type { LagoIds } from './customers.ts';
import type { LagoClient } from './lago-client.ts';

/** How often the subscriptions that Lago has are looked at again. */
const CHECK_EVERY_MS = 600_000;
/** After a look that failed; events do not wait for it. */
const RETRY_AFTER_MS = 60_000;
const CONCURRENT_POLLS = 4;
/** How far our clock may be behind Lago's. */
const CLOCKS_DIFFER_MS = 300_000;

/** One plan for one time: a change of plan ends it and begins another of the same external id. */
export interface LagoSubscription {
  readonly externalId: string;
  readonly customer: string;
  readonly planCode: string;
  /** A plan that takes over when the period ends. */
  readonly nextPlanCode: string | undefined;
  /** Milliseconds since the epoch; usage before it is not this subscription's. */
  readonly startedAt: number;
  /** Of the billing period that runs, no earlier than the start; undefined for what has ended. */
  readonly periodStartedAt: number | undefined;
  /** The first moment of the next billing period; undefined for what has ended. */
  readonly periodEndsAt: number | undefined;
  /** Milliseconds since the epoch, in whole seconds as Lago gives it. */
  readonly terminatedAt: number | undefined;
  /** Its end was not invoiced, so what it had may be billed by a successor that begins earlier. */
  readonly endedUnbilled: boolean;
}

export type SubscriptionAnswer =
  | { readonly kind: 'subscription'; readonly subscription: LagoSubscription }
  | { readonly kind: 'none' }
  | ApiProblem;

/** Asks for the active subscription of an external id. */
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
      /** The first moment that no invoice of an end has, milliseconds since the epoch; 0 when nothing ended. */
      readonly invoicedUntil: number;
    }
  | ApiProblem;

/**
 * Until when the ended subscriptions of an external id were invoiced. Lago begins a new one that is asked for
 * on the same day before that all the same, and bills what lies between twice.
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
    // An end is told in whole seconds, and belongs to what has ended.
    .map(({ terminatedAt }) => (terminatedAt === undefined ? 0 : terminatedAt + 1_000));
  return { kind: 'ended', invoicedUntil: greatest([0, ...ends]) };
}

/**
 * Until when nothing of a subscription may be ended or changed, because Lago has yet to invoice the period
 * before; undefined when there is no such period, or it is invoiced.
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
 * Which subscriptions are active. Lago takes events of any subscription and bills none of those without
 * one, so each is known to be there before an event is sent (docs/how-to/destinations/lago.md#how-lago-answers).
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

  /** What Lago has answered last of one. */
  add(subscription: LagoSubscription): void {
    this.#byId.set(subscription.externalId, subscription);
  }

  remove(externalId: string): void {
    this.#byId.delete(externalId);
  }

  /**
   * Asks Lago again when that was long ago; what is known stays when it does not answer. Lago may serve
   * others as well, so only subscriptions of the plans in use here are listed.
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
    // One that was put on another plan is on none of these lists.
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
    // Both ends of a period belong to it: its last second is the one before the next.
    periodEndsAt: end === undefined ? undefined : end + 1_000,
    terminatedAt: secondOf(object, 'terminated_at'),
    endedUnbilled: textOf(object, 'on_termination_invoice') === 'skip',
  };
}

/** A time in whole seconds, in milliseconds since the epoch; undefined where there is none. */
function secondOf(object: JsonObject, field: string): number | undefined {
  const at = timeOf(object, field);
  return at === undefined ? undefined : Math.floor(at / 1_000) * 1_000;
}

/** The subscription of an answer that has one. */
export function subscriptionOf(body: JsonObject): LagoSubscription | undefined {
  const object = body['subscription'];
  return isRecord(object) ? readSubscription(object) : undefined;
}
