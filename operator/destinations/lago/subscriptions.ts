import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, textOf } from './json.ts';
import type { LagoClient, LagoRefusal, LagoTrouble } from './lago-client.ts';

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

/** A tenant's subscription (spec 1.3, rule 1). */
export function subscriptionIdOf(tenant: string): string {
  return `sub-${tenant}`;
}

/**
 * Which subscriptions are active. Lago takes events of any subscription and bills none of those without
 * one, so each is known to be there before an event is sent (facts 5).
 */
export interface ActiveSubscriptions {
  find(externalId: string): LagoSubscription | undefined;
  add(subscription: LagoSubscription): void;
  remove(externalId: string): void;
  /** Asks Lago again when that was long ago; what is known stays when it does not answer. */
  refresh(signal: AbortSignal): Promise<LagoRefusal | LagoTrouble | undefined>;
}

export function createActiveSubscriptions(client: LagoClient, clock: Clock): ActiveSubscriptions {
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
      const list = await client.list('/subscriptions', 'subscriptions', signal);
      if (list.kind !== 'list') return list;
      const found = list.items.map(readSubscription);
      byId = new Map(found.map((subscription) => [subscription.externalId, subscription]));
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
  return isObject(object) ? readSubscription(object) : undefined;
}
