import type { Bracket } from './source.ts';
import { CATCH_UP_MS } from './watch-health.ts';

/** A gap no longer than this is over with the first second of the new watch. */
const SHORT_GAP_MS = 1_000;
const SHORT_CATCH_UP_MS = 1_000;
/** API servers send bookmarks every minute, give or take two seconds. */
const BOOKMARKS_MS = 66_000;

/**
 * Knows of what arrives on a watch that was opened where something else left off whether it may be old:
 * then it came about between the last moment of before and its arrival (docs/metering.md#changes-that-nobody-saw). Times are
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
  #heardAt = 0;
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
