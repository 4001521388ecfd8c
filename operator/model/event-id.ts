import { hash } from 'node:crypto';
import { sortedEntries } from './bytewise.ts';
import { type EventIdentity, SCHEMA_VERSION } from './event.ts';

/** The prefix of every derived id. */
export const EVENT_ID_PREFIX = 'svc1_';

/** The prefix of ids of events that came with a scoped ingest token. */
export const SCOPED_ID_PREFIX = 'ing1_';

/** The prefix of ids of late sums and of unknown tenants' sums. Nobody can push it. */
export const LATE_SUM_ID_PREFIX = 'late1_';

/** 128 bits. */
const ID_HEX_DIGITS = 32;

/**
 * Derives the id of an event: `svc1_` and the first 128 bits, as hex, of SHA-256 over the identity
 * values, separated by NUL bytes (docs/reference/events.md#ids). Absent values are empty strings,
 * and each dimension is `key=value` in bytewise key order. Quantity and properties are not
 * included, so that measuring a window again gives the same id.
 */
export function deriveEventId(identity: EventIdentity): string {
  const { tenant, metric, window_start: start, window_end: end } = identity;
  const { region = '', project = '', sku = '', resource_id: resource = '' } = identity;
  let text = `${SCHEMA_VERSION}\0${tenant}\0${metric}\0${start}\0${end}`;
  text += `\0${region}\0${project}\0${sku}\0${resource}`;
  for (const [key, value] of sortedEntries(identity.dimensions ?? {})) text += `\0${key}=${value}`;
  return EVENT_ID_PREFIX + hash('sha256', text, 'hex').slice(0, ID_HEX_DIGITS);
}

/**
 * Derives the id of an event that a scoped ingest token sent with its own id. It is `ing1_` and the
 * first 128 bits, as hex, of SHA-256 over tenant, metric and given id, separated by NUL bytes. A
 * name that does not limit the token is an empty string (docs/reference/events.md#pushed-events).
 * Senders with different scopes can therefore neither use up nor probe each other's ids.
 */
export function scopedEventId(
  { tenant = '', metric = '' }: { readonly tenant?: string; readonly metric?: string },
  givenId: string,
): string {
  const text = `${tenant}\0${metric}\0${givenId}`;
  return SCOPED_ID_PREFIX + hash('sha256', text, 'hex').slice(0, ID_HEX_DIGITS);
}

/**
 * Derives the id of a sum that may stand beside another sum of its series and window. It is
 * `late1_` and the first 128 bits, as hex, of SHA-256 over the derived id and the number of the
 * closing, separated by a NUL byte (docs/reference/events.md#usage-of-ai-gateways). Each closing
 * has another number.
 */
export function lateSumId(id: string, closing: number): string {
  return LATE_SUM_ID_PREFIX + hash('sha256', `${id}\0${closing}`, 'hex').slice(0, ID_HEX_DIGITS);
}
