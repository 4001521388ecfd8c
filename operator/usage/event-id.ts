import { createHash } from 'node:crypto';
import { type EventIdentity, SCHEMA_VERSION } from './event.ts';

/** The prefix of every derived id (spec 2.1). */
export const EVENT_ID_PREFIX = 'svc1_';

const ID_BYTES = 16;

/**
 * The id of an event: `svc1_` and the first 128 bits, as hex, of SHA-256 over the identity values
 * separated by NUL bytes (spec 2.1). Absent values are empty strings, each dimension is one
 * `key=value` in bytewise key order (design 7). Quantity and properties do not take part, so
 * measuring a window again gives the same id.
 */
export function deriveEventId(identity: EventIdentity): string {
  const dimensions = Object.entries(identity.dimensions ?? {})
    .toSorted(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .map(([key, value]) => `${key}=${value}`);
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
  const digest = createHash('sha256').update(values.join('\0')).digest();
  return EVENT_ID_PREFIX + digest.subarray(0, ID_BYTES).toString('hex');
}
