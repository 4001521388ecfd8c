import type { Clock } from '../telemetry/clock.ts';
import type { WatchProgress } from './list-and-watch.ts';
import type { Arrival, Bracket } from './source.ts';
import { CATCH_UP_MS, WatchFreshness } from './watch-health.ts';

/** A shorter interval is not recorded as unseen: no window is as short. */
const SHORTEST_UNSEEN_MS = 1_000;
/** Only the newest intervals stay: their reader collects them every few seconds. */
const MOST_UNSEEN = 20;

/**
 * Dates the changes that the lists and watches of one resource bring, and knows until when the
 * previous versions were valid. Times are wall clock, milliseconds.
 */
export class ArrivalTimes {
  readonly #clock: Clock;
  readonly #freshness: WatchFreshness;
  readonly #catchUp: CatchUp;
  #unseen: readonly Bracket[] = [];
  /** No change before this time is missing, even if nothing arrived that proves it. */
  #completeUntil = 0;
  #openedAt = Infinity;

  /** An earlier process had seen everything up to `knownAt` (wall clock); 0 if there was none. */
  constructor(clock: Clock, knownAt: number) {
    this.#clock = clock;
    this.#freshness = new WatchFreshness(knownAt);
    this.#catchUp = new CatchUp(knownAt);
  }

  /** When the last list, event or bookmark arrived; 0 before the first. */
  get receivedAt(): number {
    return this.#freshness.lastAt;
  }

  /** Until when current versions are known as the latest, for a change that arrives at `at`. */
  knownUntil(at: number): number {
    return this.#freshness.knownUntil(at);
  }

  /** See {@link SourceHealth.unseen}. */
  get unseen(): readonly Bracket[] {
    return this.#unseen;
  }

  /** A complete list has arrived; its request was sent at `at`. */
  listed(at: number): void {
    const from = Math.max(this.#completeUntil, this.knownUntil(at));
    if (at - from >= SHORTEST_UNSEEN_MS) {
      this.#unseen = [...this.#unseen, { from, until: at }].slice(-MOST_UNSEEN);
    }
    this.#completeUntil = at;
    this.#freshness.confirm(at);
    this.#catchUp.listed(at);
  }

  /** The API server did not serve the resource at `at`, so no object came or went unseen. */
  absent(at: number): void {
    this.#completeUntil = at;
  }

  opened(): void {
    const now = this.#clock.now();
    this.#openedAt = now;
    this.#freshness.resume(now);
    this.#catchUp.opened(now);
  }

  /** An event or bookmark arrives at `at`. Call it before {@link arrivalOf}. */
  arriving({ kind }: WatchProgress, at: number): void {
    this.#catchUp.arrived(kind, at, this.#clock.monotonic());
  }

  arrivalOf(at: number): Arrival {
    const happened = this.#catchUp.happened(at);
    const knownUntil = this.#freshness.knownUntil(at);
    return { at, knownUntil, late: false, happened };
  }

  /** The view has applied the event or bookmark that arrived at `at`. */
  taken(at: number): void {
    this.#freshness.arrived(at);
  }

  /** The watch is over. `inOrder`: the server ended it, so nothing before its end is missing. */
  closed(inOrder: boolean): void {
    const now = this.#clock.now();
    this.#catchUp.closed(now, inOrder ? now : this.#freshness.knownUntil(now));
    // A watch that was open this long has delivered every change that preceded it.
    const hasCaughtUp = now - this.#openedAt >= CATCH_UP_MS;
    if (hasCaughtUp)
      this.#completeUntil = Math.max(this.#completeUntil, inOrder ? now : this.#openedAt);
    this.#openedAt = Infinity;
  }
}

/** After a gap of at most this length, the new watch catches up within `SHORT_CATCH_UP_MS`. */
const SHORT_GAP_MS = 1_000;
const SHORT_CATCH_UP_MS = 1_000;
/** API servers send a bookmark every minute, within two seconds. */
const BOOKMARKS_MS = 66_000;

/**
 * Decides whether an event may be old, on a watch that resumes from an earlier version. An old
 * change happened between the last time that nothing was missing and its arrival
 * (docs/explanation/gaps.md#changes-that-nobody-saw). Times are wall clock, milliseconds.
 */
export class CatchUp {
  /** Every change up to this time arrived when it happened. */
  #liveUntil: number;
  /** An event that arrives before this time may be old. */
  #until = Number.NEGATIVE_INFINITY;
  /** The watch continues from a list, not from an earlier watch. */
  #isAfterList = false;
  /** When the last event or bookmark arrived. */
  #receivedAt = 0;
  /** When this watch's last bookmark arrived (monotonic clock); undefined when none is due. */
  #bookmarkAt: number | undefined;

  /** An earlier process had seen everything up to `knownAt`; 0 if there was none. */
  constructor(knownAt: number) {
    this.#liveUntil = knownAt;
  }

  /** The request of a complete list was sent at `at`. */
  listed(at: number): void {
    this.#liveUntil = at;
    this.#isAfterList = true;
  }

  /** The watch was opened at `at`. */
  opened(at: number): void {
    this.#receivedAt = at;
    this.#bookmarkAt = undefined;
    this.#until = at + this.#catchUpMs(at);
  }

  /**
   * An event or bookmark arrived. If a bookmark is overdue, the connection was delayed at some time
   * since the last arrival, so what arrives now may be as old as that.
   */
  arrived(kind: 'object' | 'bookmark', at: number, monotonic: number): void {
    const isDelayed = this.#bookmarkAt !== undefined && monotonic - this.#bookmarkAt > BOOKMARKS_MS;
    if (isDelayed && at >= this.#until) {
      this.#liveUntil = Math.max(this.#liveUntil, this.#receivedAt);
      this.#until = at + SHORT_CATCH_UP_MS;
    }
    if (isDelayed) this.#bookmarkAt = undefined;
    if (kind === 'bookmark') this.#bookmarkAt = monotonic;
    this.#receivedAt = at;
  }

  /** The watch ended at `at`; no change up to `liveUntil` is missing. */
  closed(at: number, liveUntil: number): void {
    this.#isAfterList = false;
    if (at >= this.#until) this.#liveUntil = Math.max(this.#liveUntil, liveUntil);
  }

  /** When a change that arrives at `at` happened; undefined when it happened just now. */
  happened(at: number): Bracket | undefined {
    if (at >= this.#until || this.#liveUntil >= at) return undefined;
    return { from: this.#liveUntil, until: at };
  }

  /**
   * How long after opening an event may be old, milliseconds. A change that happened during a list
   * takes no longer to arrive than the list took.
   */
  #catchUpMs(at: number): number {
    const gap = at - this.#liveUntil;
    if (gap <= SHORT_GAP_MS) return SHORT_CATCH_UP_MS;
    return this.#isAfterList ? Math.min(gap, CATCH_UP_MS) : CATCH_UP_MS;
  }
}
