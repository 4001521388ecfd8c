import type { Decimal } from './decimal.ts';

/**
 * The schema of every usage event (docs/reference/events.md#fields); it changes only with a
 * breaking change.
 */
export const SCHEMA_VERSION = 'svc.usage/v1';

/** Informational context of an event; never part of its identity. */
export type EventProperty = string | number | boolean;

/**
 * One metered quantity for one tenant over one closed window, exactly as it is stored. Times are
 * `YYYY-MM-DDTHH:MM:SSZ` in UTC (`recorded_at` may have milliseconds). Outside of the service,
 * `quantity` is a bare JSON number: use `encodeEvent`.
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
 * The values that an event's id is derived from (docs/reference/events.md#ids). Two different
 * charges differ in at least one of them.
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
 * The canonical text of an event, one line of JSON
 * (docs/reference/ledger-format.md#text-of-an-event). Fields have a fixed order, and absent fields
 * are left out. The quantity is last, as a plain decimal number, so that its digits can be found
 * without parsing.
 */
export function encodeEvent(event: UsageEvent): string {
  const { schema_version, id, unit, recorded_at, source, tenant, metric, region } = event;
  const { resource_id, project, sku, window_start, window_end, dimensions, properties } = event;
  const fields = JSON.stringify({
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
  return `${fields.slice(0, -1)},"quantity":${event.quantity}}`;
}

/**
 * Decodes a line of {@link encodeEvent}. The quantity keeps every digit of the text. Throws a
 * SyntaxError if the line is not JSON; other texts are not checked.
 */
export function decodeEvent(line: string): UsageEvent {
  const parsed = JSON.parse(line) as UsageEvent;
  return { ...parsed, quantity: line.slice(line.lastIndexOf(':') + 1, -1) as Decimal };
}
