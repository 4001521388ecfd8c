import { omitUndefined } from '../model/omit-undefined.ts';
import type { Clock } from '../telemetry/clock.ts';
import { CatchUp } from './catch-up.ts';
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
  #wholeUntil = 0;
  #openedAt = Infinity;

  /** Up to `knownAt` (wall clock) an earlier process had seen everything; 0 without any. */
  constructor(clock: Clock, knownAt: number) {
    this.#clock = clock;
    this.#freshness = new WatchFreshness(knownAt);
    this.#catchUp = new CatchUp(knownAt);
  }

  /** When the API server was last heard of; 0 before the first time. */
  get heardAt(): number {
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
    const from = Math.max(this.#wholeUntil, this.knownUntil(at));
    if (at - from >= SHORTEST_UNSEEN_MS) {
      this.#unseen = [...this.#unseen, { from, until: at }].slice(-MOST_UNSEEN);
    }
    this.#wholeUntil = at;
    this.#freshness.confirm(at);
    this.#catchUp.listed(at);
  }

  /** The API server did not serve the resource at `at`, so nothing of it came and went. */
  absent(at: number): void {
    this.#wholeUntil = at;
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
    return { at, knownUntil, late: false, ...omitUndefined({ happened }) };
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
    if (hasCaughtUp) this.#wholeUntil = Math.max(this.#wholeUntil, inOrder ? now : this.#openedAt);
    this.#openedAt = Infinity;
  }
}
