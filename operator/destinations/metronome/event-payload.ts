import type { UsageEvent } from '../../model/event.ts';
import { ABSENT, VALUE_PROPERTY } from './metric-definition.ts';

/** An event as Metronome takes it. Every property is text, so that no digit is lost on the way to a number. */
export interface MetronomeEvent {
  readonly transaction_id: string;
  readonly customer_id: string;
  readonly event_type: string;
  /** The window's start; the same at every attempt. */
  readonly timestamp: string;
  readonly properties: Readonly<Record<string, string>>;
}

/**
 * A usage event with every dimension as a property, and with every property that a metric needs: an
 * event without one of them would silently count for nothing (facts 3.3). The quantity is written last:
 * nothing can stand in its place.
 */
export function metronomeEvent(
  event: UsageEvent,
  customerId: string,
  required: readonly string[],
): MetronomeEvent {
  const { region, project, sku, resource_id, source, unit, window_start, window_end } = event;
  const named = {
    unit,
    window_start,
    window_end,
    schema_version: event.schema_version,
    region,
    project,
    sku,
    resource_id,
    source,
  };
  const given = Object.entries({ ...event.dimensions, ...named }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
  );
  return {
    transaction_id: event.id,
    customer_id: customerId,
    event_type: event.metric,
    timestamp: window_start,
    properties: {
      ...Object.fromEntries(required.map((key) => [key, ABSENT])),
      ...Object.fromEntries(given),
      [VALUE_PROPERTY]: event.quantity,
    },
  };
}
