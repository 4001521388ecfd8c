import { omitUndefined } from '../model/omit-undefined.ts';
import { newestDateOf } from './api-dates.ts';
import type { ObjectEvent } from './list-and-watch.ts';
import type { RevisionClock } from './revision-clock.ts';
import type { Bracket } from './source.ts';
import { CATCH_UP_MS } from './watch-health.ts';

/** A clock of versions that can be told to learn those of a stretch before they are asked for. */
export interface Revisions extends RevisionClock {
  /** Learns when versions since this one, which is of its etcd, were given out. Resolves when it has, or after a few seconds. */
  learn(since: string, signal: AbortSignal): Promise<void>;
  /**
   * Whether a collection has versions of the etcd that the clock knows; undefined where nobody answers. Versions
   * alone do not tell: those of a younger etcd are as low as old ones of this.
   */
  covers(newest: NewestVersion, signal: AbortSignal): Promise<boolean | undefined>;
}

/** Asks for the newest version that a collection's list tells. */
export type NewestVersion = (signal: AbortSignal) => Promise<bigint | undefined>;

/** What dates the versions of one collection. */
export interface Dating {
  readonly revisions: Revisions;
  readonly newest: NewestVersion;
}

/** A gap no longer than this is over with the first second of the new watch. */
const SHORT_GAP_MS = 1_000;
const SHORT_CATCH_UP_MS = 1_000;
/** A list that took no longer is followed at once: reading what was missed beside it would take longer still. */
const QUICK_LIST_MS = 5_000;
/** API servers send bookmarks every minute, give or take two seconds. */
const BOOKMARKS_MS = 66_000;

/**
 * Knows of what arrives on a watch that was opened where something else left off whether it may be old:
 * then it came about between the last moment of before and its arrival, and where a clock of versions
 * says more, in its bracket (docs/metering.md#changes-that-nobody-saw). Times are those of the wall clock,
 * milliseconds.
 */
export class CatchUp {
  /** Up to here everything has arrived in its time. */
  #liveUntil: number;
  /** What arrives before may be old. */
  #until = Number.NEGATIVE_INFINITY;
  /** Undefined where versions of this kind are not those that it knows. */
  #timedBy: Revisions | undefined;
  readonly #dating: Dating | undefined;
  /** Whether the clock knows versions of this kind; undefined until somebody has told. */
  #covered: boolean | undefined;
  readonly #knownAt: number;
  /** The watch goes on from a list, and not from where another one left off. */
  #isAfterList = false;
  /** When anything arrived last. */
  #heardAt = 0;
  /** When the last bookmark arrived on this watch, by the monotonic clock; undefined where none is expected. */
  #bookmarkAt: number | undefined;

  /** Up to `knownAt` an earlier process had seen everything; 0 without any. */
  constructor(knownAt: number, dating?: Dating) {
    this.#liveUntil = knownAt;
    this.#knownAt = knownAt;
    this.#dating = dating;
  }

  /** A whole list was asked for at `at`. */
  listed(at: number): void {
    this.#liveUntil = at;
    this.#isAfterList = true;
    // The API server may have been given another etcd.
    this.#covered = undefined;
  }

  /** A watch is about to be opened at `at`, from a version that had arrived at `lastAt`; 0 in an earlier process. */
  async begin(version: string, lastAt: number, at: number, signal: AbortSignal): Promise<void> {
    const heardAt = Math.max(lastAt, this.#knownAt);
    this.#timedBy = undefined;
    if (this.#dating === undefined || this.#isSoon(at) || heardAt === 0) return;
    const { revisions, newest } = this.#dating;
    this.#covered ??= await revisions.covers(newest, signal);
    // From a version of another etcd there is nothing to learn, for this kind or any other.
    if (this.#covered !== true) return;
    await revisions.learn(version, signal);
    if (revisions.agrees(version, heardAt)) this.#timedBy = revisions;
  }

  /** It was opened. */
  opened(at: number): void {
    this.#heardAt = at;
    this.#bookmarkAt = undefined;
    this.#until = at + this.#catchUpMs(at);
  }

  /**
   * Something has arrived. Where a bookmark is overdue the connection was held up, at any time since something
   * arrived before: what comes now may be as old.
   */
  arrived(kind: 'object' | 'bookmark', at: number, monotonic: number): void {
    const isHeldUp = this.#bookmarkAt !== undefined && monotonic - this.#bookmarkAt > BOOKMARKS_MS;
    if (isHeldUp && at >= this.#until) {
      this.#liveUntil = Math.max(this.#liveUntil, this.#heardAt);
      this.#until = at + SHORT_CATCH_UP_MS;
    }
    if (isHeldUp) this.#bookmarkAt = undefined;
    if (kind === 'bookmark') this.#bookmarkAt = monotonic;
    this.#heardAt = at;
  }

  /** It is over; up to `liveUntil` nothing of it is missing. */
  closed(at: number, liveUntil: number): void {
    this.#isAfterList = false;
    if (at >= this.#until) this.#liveUntil = Math.max(this.#liveUntil, liveUntil);
  }

  /** When a change came about that arrives at `at`; undefined when it was just now. */
  happened(event: ObjectEvent, at: number): Bracket | undefined {
    if (at >= this.#until || this.#liveUntil >= at) return undefined;
    const wide = { from: this.#liveUntil, until: at };
    if (this.#timedBy === undefined) return wide;
    const { resourceVersion } = event.identity;
    const dates = omitUndefined({ from: newestDateOf(event.object) });
    this.#timedBy.observe(resourceVersion, dates);
    const narrow = this.#timedBy.bracket(resourceVersion);
    const from = Math.min(Math.max(wide.from, narrow.from), at);
    return { from, until: Math.max(from, Math.min(narrow.until, at)) };
  }

  /** Whether a watch that is opened at `at` has so little to catch up with that nothing is read for its dates. */
  #isSoon(at: number): boolean {
    return at - this.#liveUntil <= (this.#isAfterList ? QUICK_LIST_MS : SHORT_GAP_MS);
  }

  /** For how long what arrives may be old. What came about during a list takes no longer to arrive than the list took. */
  #catchUpMs(at: number): number {
    const gap = at - this.#liveUntil;
    if (gap <= SHORT_GAP_MS) return SHORT_CATCH_UP_MS;
    return this.#isAfterList ? Math.min(gap, CATCH_UP_MS) : CATCH_UP_MS;
  }
}
