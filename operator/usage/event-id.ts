import { hash } from 'node:crypto';
import { sortedEntries } from './bytewise.ts';
import { type EventIdentity, SCHEMA_VERSION } from './event.ts';

/** The prefix of every derived id (spec 2.1). */
export const EVENT_ID_PREFIX = 'svc1_';

/** 128 bits. */
const ID_HEX_DIGITS = 32;

/**
 * The id of an event: `svc1_` and the first 128 bits, as hex, of SHA-256 over the identity values
 * separated by NUL bytes (spec 2.1). Absent values are empty strings, each dimension is one
 * `key=value` in bytewise key order (design 7). Quantity and properties do not take part, so
 * measuring a window again gives the same id.
 */
export function deriveEventId(identity: EventIdentity): string {
  const dimensions = sortedEntries(identity.dimensions ?? {}).map(
    ([key, value]) => `${key}=${value}`,
  );
  const values = [
    SCHEMA_VERSION,
    identity.tenant,
    identity.metric,
    identity.window_start,
    identity.window_end,
    identity.region ?? '',
    identity.project ?? '',
    identity.sku ?? '',
    identity.resource_id ?? '',
    ...dimensions,
  ];
  return EVENT_ID_PREFIX + hash('sha256', values.join('\0'), 'hex').slice(0, ID_HEX_DIGITS);
}
