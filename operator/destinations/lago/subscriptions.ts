import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, textOf } from '../json.ts';
import type { LagoClient } from './lago-client.ts';

/** How often the subscriptions that Lago has are looked at again. */
const CHECK_EVERY_MS = 600_000;
/** After a look that failed; events do not wait for it. */
const RETRY_AFTER_MS = 60_000;

export interface LagoSubscription {
  readonly externalId: string;
  readonly planCode: string;
  /** A plan that follows when the period ends. */
  readonly nextPlanCode: string | undefined;
  /** Milliseconds since the epoch; usage before it is never billed. */
  readonly startedAt: number;
}

/** A tenant's subscription (docs/destinations/lago.md#tenants). */
export function subscriptionIdOf(tenant: string): string {
  return `sub-${tenant}`;
}

/**
 * Which subscriptions are active. Lago takes events of any subscription and bills none of those without
 * one, so each is known to be there before an event is sent (docs/destinations/lago.md#how-lago-answers).
 */
export interface ActiveSubscriptions {
  find(externalId: string): LagoSubscription | undefined;
  add(subscription: LagoSubscription): void;
  remove(externalId: string): void;
  /** Asks Lago again when that was long ago; what is known stays when it does not answer. */
  refresh(signal: AbortSignal): Promise<ApiProblem | undefined>;
}

/** Lago may serve others as well, so only subscriptions of the plans in use here are looked at. */
export function createActiveSubscriptions(
  client: LagoClient,
  clock: Clock,
  defaultPlan: string,
): ActiveSubscriptions {
  let byId = new Map<string, LagoSubscription>();
  let nextCheck = Number.NEGATIVE_INFINITY;
  return {
    find: (externalId) => byId.get(externalId),
    add: (subscription) => void byId.set(subscription.externalId, subscription),
    remove: (externalId) => void byId.delete(externalId),
    refresh: async (signal) => {
      const now = clock.monotonic();
      if (now < nextCheck) return undefined;
      nextCheck = now + RETRY_AFTER_MS;
      const plans = new Set([defaultPlan, ...[...byId.values()].map(({ planCode }) => planCode)]);
      const found = new Map<string, LagoSubscription>();
      for (const plan of plans) {
        const query = new URLSearchParams({ plan_code: plan });
        const list = await client.list(
          `/subscriptions?${query.toString()}`,
          'subscriptions',
          signal,
        );
        if (list.kind !== 'list') return list;
        for (const item of list.items) {
          const subscription = readSubscription(item);
          found.set(subscription.externalId, subscription);
        }
      }
      byId = found;
      nextCheck = now + CHECK_EVERY_MS;
      return undefined;
    },
  };
}

export function readSubscription(object: JsonObject): LagoSubscription {
  const start = textOf(object, 'started_at') ?? textOf(object, 'subscription_at') ?? '';
  return {
    externalId: textOf(object, 'external_id') ?? '',
    planCode: textOf(object, 'plan_code') ?? '',
    nextPlanCode: textOf(object, 'next_plan_code'),
    startedAt: Date.parse(start) || 0,
  };
}

/** The subscription of an answer that has one. */
export function subscriptionOf(body: JsonObject): LagoSubscription | undefined {
  const object = body['subscription'];
  return isRecord(object) ? readSubscription(object) : undefined;
}
