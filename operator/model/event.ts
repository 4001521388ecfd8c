import type { Decimal } from './decimal.ts';

/** The schema of every usage event (docs/reference/events.md#fields); it changes only with a breaking change. */
export const SCHEMA_VERSION = 'svc.usage/v1';

/** Informational context of an event; never part of its identity. */
export type EventProperty = string | number | boolean;

/**
 * One metered quantity for one tenant over one closed window, exactly as it is stored.
 * Times are `YYYY-MM-DDTHH:MM:SSZ` in UTC (`recorded_at` may carry milliseconds).
 * Outward, `quantity` is a bare JSON number: use `encodeEvent`.
 */
export interface UsageEvent {
  readonly schema_version: typeof SCHEMA_VERSION;
  readonly id: string;
  readonly tenant: string;
  readonly metric: string;
  readonly quantity: Decimal;
  readonly unit: string;
  readonly window_start: string;
  readonly window_end: string;
  readonly recorded_at: string;
  readonly region?: string;
  readonly project?: string;
  readonly sku?: string;
  readonly resource_id?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, EventProperty>>;
  readonly source?: string;
}

/**
 * The values that an event's id is derived from (docs/reference/events.md#ids): everything that tells two
 * charges apart.
 */
export type EventIdentity = Pick<
  UsageEvent,
  | 'tenant'
  | 'metric'
  | 'window_start'
  | 'window_end'
  | 'region'
  | 'project'
  | 'sku'
  | 'resource_id'
  | 'dimensions'
>;

/**
 * The canonical text of an event, one line of JSON: fields in a fixed order, absent fields left out, the quantity last,
 * as a plain decimal number. Standing last, its digits can be found again without looking at the rest of the line.
 * The order is that in which the collector has always written events (docs/reference/ledger-format.md#text-of-an-event).
 */
export function encodeEvent(event: UsageEvent): string {
  const { schema_version, id, unit, recorded_at, source, tenant, metric, region } = event;
  const { resource_id, project, sku, window_start, window_end, dimensions, properties } = event;
  const rest = JSON.stringify({
    schema_version,
    id,
    unit,
    recorded_at,
    source,
    tenant,
    metric,
    region,
    resource_id,
    project,
    sku,
    window_start,
    window_end,
    dimensions,
    properties,
  });
  return `${rest.slice(0, -1)},"quantity":${event.quantity}}`;
}

/**
 * The event of a line written by {@link encodeEvent}. The quantity keeps every digit of the text.
 * Throws a SyntaxError when the line is not JSON; the line must come from encodeEvent.
 */
export function decodeEvent(line: string): UsageEvent {
  const parsed = JSON.parse(line) as UsageEvent;
  return { ...parsed, quantity: line.slice(line.lastIndexOf(':') + 1, -1) as Decimal };
}
