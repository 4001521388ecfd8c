import { greatest } from '../model/extremes.ts';
import { isRecord } from '../model/is-record.ts';
import { metadataOf } from './resource.ts';
import type { RawObject } from './source.ts';

/** Dates in objects are cut to whole seconds: what they are of came about within as long after them. */
export const DATE_STEP_MS = 1_000;

/**
 * The dates that API servers have put on an object, by what they are of; milliseconds since the epoch. They take each
 * of them while they handle the write that brings it, so that the version was stored no earlier. What kubelets and
 * controllers say adds nothing: the write that brings it is dated as well, and by a better clock.
 */
export function apiDatesOf(object: RawObject): ReadonlyMap<string, number> {
  const metadata = metadataOf(object);
  return new Map([
    ...dateOf('created', timeOf(metadata['creationTimestamp'])),
    ...dateOf('deleted', deletionAskedAt(metadata)),
    ...managedFieldsOf(object).flatMap((field) => dateOf(writerOf(field), timeOf(field['time']))),
  ]);
}

/** The newest of them. */
export function newestDateOf(object: RawObject): number | undefined {
  return newestOf(apiDatesOf(object).values());
}

/**
 * When the API server says that an object was written last. Undefined where somebody has emptied its managedFields:
 * no later write is dated then (https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields).
 */
export function lastWriteOf(object: RawObject): number | undefined {
  return newestOf(managedFieldsOf(object).flatMap((field) => timeOf(field['time']) ?? []));
}

/** Milliseconds since the epoch, of an RFC 3339 text. */
export function timeOf(value: unknown): number | undefined {
  const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(time) ? time : undefined;
}

function newestOf(dates: Iterable<number>): number | undefined {
  const newest = greatest(dates);
  return Number.isFinite(newest) ? newest : undefined;
}

function dateOf(key: string, at: number | undefined): readonly (readonly [string, number])[] {
  return at === undefined ? [] : [[key, at]];
}

/** `deletionTimestamp` is when what is asked to end has to be gone: the grace that it was given after the request. */
function deletionAskedAt(metadata: RawObject): number | undefined {
  const due = timeOf(metadata['deletionTimestamp']);
  const grace = metadata['deletionGracePeriodSeconds'] ?? 0;
  if (due === undefined || typeof grace !== 'number' || !(grace >= 0)) return undefined;
  return due - grace * 1_000;
}

function managedFieldsOf(object: RawObject): readonly RawObject[] {
  const fields = metadataOf(object)['managedFields'];
  return Array.isArray(fields) ? (fields as unknown[]).filter(isRecord) : [];
}

/** There is one entry for each of these (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management). */
function writerOf({ manager, operation, apiVersion, subresource }: RawObject): string {
  return JSON.stringify([manager, operation, apiVersion, subresource]);
}
