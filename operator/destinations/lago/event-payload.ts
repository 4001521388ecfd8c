import type { UsageEvent } from '../../model/event.ts';
import { subscriptionIdOf } from './subscriptions.ts';

/** An event as Lago takes it. Every property is text, so that nothing is lost on the way to a number. */
export interface LagoEvent {
  readonly transaction_id: string;
  readonly external_subscription_id: string;
  readonly code: string;
  /** Whole seconds since the epoch of the window's start; the same at every attempt. */
  readonly timestamp: number;
  readonly properties: Readonly<Record<string, string>>;
}

/**
 * A usage event with every dimension as a property (spec 1.3, rule 4), so that charges may price by
 * any of them. The quantity, under the property that Lago sums, is written last: nothing can stand in
 * its place.
 */
export function lagoEvent(event: UsageEvent, field: string): LagoEvent {
  const { region, project, sku, resource_id } = event;
  const named = Object.entries({ region, project, sku, resource_id }).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, value] as const],
  );
  const informational = Object.entries(event.properties ?? {}).map(
    ([key, value]) => [key, String(value)] as const,
  );
  return {
    transaction_id: event.id,
    external_subscription_id: subscriptionIdOf(event.tenant),
    code: event.metric,
    timestamp: Date.parse(event.window_start) / 1000,
    properties: {
      ...Object.fromEntries(informational),
      ...event.dimensions,
      ...Object.fromEntries(named),
      [field]: event.quantity,
    },
  };
}
