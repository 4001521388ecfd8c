import { greatest } from '../model/extremes.ts';
import { apiDatesOf, DATE_STEP_MS } from './api-dates.ts';
import type { ObjectEvent } from './list-and-watch.ts';

/** A version that had been stored at this moment; wall clock of the API server, milliseconds. */
export interface StoredBy {
  readonly version: string;
  readonly until: number;
}

/**
 * Tells of the versions of one watch until when they had been stored, however slow the API server was. It dates a
 * write of an object only once it has the version that the write replaces, and takes another date where that one was
 * overtaken. So what a version brings as a new date is of a moment at which the version before it had been stored
 * (docs/metering.md#changes-that-nobody-saw).
 */
export class Successions {
  /** The last version of each object, by uid, with the newest of all dates that were seen on it so far. */
  readonly #last = new Map<string, Dated>();

  /** Takes in what a watch tells next; gives what follows for the version before of the same object. */
  follow({ identity, deleted, object }: ObjectEvent): StoredBy | undefined {
    const { uid, resourceVersion: version } = identity;
    const before = this.#last.get(uid);
    // What is left of a deleted object brings no date.
    if (deleted) {
      this.#last.delete(uid);
      return undefined;
    }
    const dates = apiDatesOf(object);
    this.#last.set(uid, { version, dates: newestOfBoth(before?.dates, dates) });
    const at = before === undefined ? undefined : dateOfWrite(before.dates, dates);
    return before === undefined || at === undefined
      ? undefined
      : { version: before.version, until: at + DATE_STEP_MS };
  }
}

type Dates = ReadonlyMap<string, number>;

interface Dated {
  readonly version: string;
  readonly dates: Dates;
}

function newestOfBoth(before: Dates = new Map(), after: Dates): Dates {
  return new Map([...before, ...newerIn(after, before)]);
}

function newerIn(after: Dates, before: Dates): readonly (readonly [string, number])[] {
  return [...after].filter(([key, at]) => at > (before.get(key) ?? Number.NEGATIVE_INFINITY));
}

/**
 * The date of a write that is certain to be its own. Entries of managedFields are also merged, where there are more than ten,
 * renamed and put back by clients, and carry older dates then: none of which is newer than all others, or is there
 * beside all others.
 */
function dateOfWrite(before: Dates, after: Dates): number | undefined {
  const newest = greatest(before.values());
  const date = greatest(newerIn(after, before).map(([, at]) => at));
  const isWhole = [...before.keys()].every((key) => after.has(key));
  if (!Number.isFinite(newest) || !Number.isFinite(date)) return undefined;
  return date > newest || (date === newest && isWhole) ? date : undefined;
}
