import { isRecord } from '../model/is-record.ts';
import { parseQuantity } from './quantity.ts';
import type { Projected, RawObject } from './source.ts';

/**
 * Readers for objects of unknown shape. Each returns undefined, or an empty value, for a field that
 * is missing or of another type, so that a projection never throws.
 */

const NO_RECORD: RawObject = Object.freeze({});
const NO_LIST: readonly RawObject[] = Object.freeze([]);

/** The identity of an object; undefined if it has no uid or no name. */
export function identityOf(object: RawObject): Projected | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  return { uid, name, namespace: textAt(metadata, 'namespace') ?? '' };
}

/** The object at a key; an empty one when there is none. */
export function recordAt(parent: RawObject, key: string): RawObject {
  const value = parent[key];
  return isRecord(value) ? value : NO_RECORD;
}

/** The objects of the list at a key; other entries are left out. */
export function listAt(parent: RawObject, key: string): readonly RawObject[] {
  const value = parent[key];
  return Array.isArray(value) ? value.filter(isRecord) : NO_LIST;
}

/** The text at a key; undefined when it is absent or empty. */
export function textAt(parent: RawObject, key: string): string | undefined {
  const value = parent[key];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The number at a key; 0 when there is none. */
export function countAt(parent: RawObject, key: string): number {
  const value = parent[key];
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

/**
 * The RFC 3339 time at a key in milliseconds since the epoch; undefined when absent, unreadable or
 * not after the epoch (kubelets write the epoch for "not known").
 */
export function timeAt(parent: RawObject, key: string): number | undefined {
  const text = textAt(parent, key);
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  return ms > 0 ? ms : undefined;
}

/** The condition of a type out of `status.conditions`. */
export function conditionOf(status: RawObject, type: string): RawObject | undefined {
  return listAt(status, 'conditions').find((condition) => condition['type'] === type);
}

/** Nano-units of the quantity at a key; undefined when it is absent, malformed or negative. */
export function amountAt(parent: RawObject, key: string): bigint | undefined {
  const outcome = parseQuantity(parent[key]);
  if (outcome.kind === 'invalid' || outcome.nano < 0n) return undefined;
  return outcome.nano;
}
