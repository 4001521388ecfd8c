import type { Clock } from '../telemetry/clock.ts';
import type { WatchProgress } from './list-and-watch.ts';
import type { Arrival, Bracket } from './source.ts';
import { CATCH_UP_MS, WatchFreshness } from './watch-health.ts';

/** A stretch that is shorter than this is within the news of a moment, and no window is as short. */
const SHORTEST_UNSEEN_MS = 1_000;
/** The newest stretches are enough: whoever records them reads them every few seconds. */
const MOST_UNSEEN = 20;

/**
 * Of the lists and watches of one resource: when what they tell came about, and until when what is held was known to
 * be so. Times are those of the wall clock, milliseconds.
 */
export class ArrivalTimes {
  readonly #clock: Clock;
  readonly #freshness: WatchFreshness;
  readonly #catchUp: CatchUp;
  #unseen: readonly Bracket[] = [];
  /** Up to here nothing is missing, also where nothing has arrived to prove it. */
  #completeUntil = 0;
  #openedAt = Infinity;

  /** Up to `knownAt` (wall clock) an earlier process had seen everything; 0 without any. */
  constructor(clock: Clock, knownAt: number) {
    this.#clock = clock;
    this.#freshness = new WatchFreshness(knownAt);
    this.#catchUp = new CatchUp(knownAt);
  }

  /** When the API server was last heard of; 0 before the first time. */
  get receivedAt(): number {
    return this.#freshness.lastAt;
  }

  /** Until when the versions that are held are known to have been the last ones, for a change that arrives at `at`. */
  knownUntil(at: number): number {
    return this.#freshness.knownUntil(at);
  }

  /** As `SourceHealth` has it. */
  get unseen(): readonly Bracket[] {
    return this.#unseen;
  }

  /** A whole list is in that was asked for at `at`. */
  listed(at: number): void {
    const from = Math.max(this.#completeUntil, this.knownUntil(at));
    if (at - from >= SHORTEST_UNSEEN_MS) {
      this.#unseen = [...this.#unseen, { from, until: at }].slice(-MOST_UNSEEN);
    }
    this.#completeUntil = at;
    this.#freshness.confirm(at);
    this.#catchUp.listed(at);
  }

  /** The API server did not serve the resource at `at`, so nothing of it came and went. */
  absent(at: number): void {
    this.#completeUntil = at;
  }

  /** A watch was opened. */
  opened(): void {
    const now = this.#clock.now();
    this.#openedAt = now;
    this.#freshness.resume(now);
    this.#catchUp.opened(now);
  }

  /** Something arrives on it at `at`: to be called before {@link arrivalOf}. */
  arriving({ kind }: WatchProgress, at: number): void {
    this.#catchUp.arrived(kind, at, this.#clock.monotonic());
  }

  arrivalOf(at: number): Arrival {
    const happened = this.#catchUp.happened(at);
    const knownUntil = this.#freshness.knownUntil(at);
    return { at, knownUntil, late: false, happened };
  }

  /** What arrived at `at` has been taken in. */
  taken(at: number): void {
    this.#freshness.arrived(at);
  }

  /** The watch is over; where it was ended in order nothing of before is missing. */
  closed(inOrder: boolean): void {
    const now = this.#clock.now();
    this.#catchUp.closed(now, inOrder ? now : this.#freshness.knownUntil(now));
    // A watch that was open for so long has brought all that was missed before it.
    const hasCaughtUp = now - this.#openedAt >= CATCH_UP_MS;
    if (hasCaughtUp)
      this.#completeUntil = Math.max(this.#completeUntil, inOrder ? now : this.#openedAt);
    this.#openedAt = Infinity;
  }
}

/** A gap no longer than this is over with the first second of the new watch. */
const SHORT_GAP_MS = 1_000;
const SHORT_CATCH_UP_MS = 1_000;
/** API servers send bookmarks every minute, give or take two seconds. */
const BOOKMARKS_MS = 66_000;

/**
 * Knows of what arrives on a watch that was opened where something else left off whether it may be old:
 * then it came about between the last moment of before and its arrival (docs/explanation/gaps.md#changes-that-nobody-saw). Times are
 * those of the wall clock, milliseconds.
 */
export class CatchUp {
  /** Up to here everything has arrived in its time. */
  #liveUntil: number;
  /** What arrives before may be old. */
  #until = Number.NEGATIVE_INFINITY;
  /** The watch goes on from a list, and not from where another one left off. */
  #isAfterList = false;
  /** When anything arrived last. */
  #receivedAt = 0;
  /** When the last bookmark arrived on this watch, by the monotonic clock; undefined where none is expected. */
  #bookmarkAt: number | undefined;

  /** Up to `knownAt` an earlier process had seen everything; 0 without any. */
  constructor(knownAt: number) {
    this.#liveUntil = knownAt;
  }

  /** A whole list was asked for at `at`. */
  listed(at: number): void {
    this.#liveUntil = at;
    this.#isAfterList = true;
  }

  /** It was opened. */
  opened(at: number): void {
    this.#receivedAt = at;
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
      this.#liveUntil = Math.max(this.#liveUntil, this.#receivedAt);
      this.#until = at + SHORT_CATCH_UP_MS;
    }
    if (isHeldUp) this.#bookmarkAt = undefined;
    if (kind === 'bookmark') this.#bookmarkAt = monotonic;
    this.#receivedAt = at;
  }

  /** It is over; up to `liveUntil` nothing of it is missing. */
  closed(at: number, liveUntil: number): void {
    this.#isAfterList = false;
    if (at >= this.#until) this.#liveUntil = Math.max(this.#liveUntil, liveUntil);
  }

  /** When a change came about that arrives at `at`; undefined when it was just now. */
  happened(at: number): Bracket | undefined {
    if (at >= this.#until || this.#liveUntil >= at) return undefined;
    return { from: this.#liveUntil, until: at };
  }

  /** For how long what arrives may be old. What came about during a list takes no longer to arrive than the list took. */
  #catchUpMs(at: number): number {
    const gap = at - this.#liveUntil;
    if (gap <= SHORT_GAP_MS) return SHORT_CATCH_UP_MS;
    return this.#isAfterList ? Math.min(gap, CATCH_UP_MS) : CATCH_UP_MS;
  }
}
