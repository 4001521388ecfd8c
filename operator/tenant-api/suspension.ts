import { pause } from '../telemetry/abort.ts';
import type { Clock } from '../telemetry/clock.ts';

/** First suspension, milliseconds. Each further one is twice as long. */
const SHORTEST_MS = 300_000;
const LONGEST_MS = 3_600_000;
/** After this time within the limits, the next suspension is a first one again. */
const FORGIVEN_MS = 3_600_000;

/** Why a tenant cluster's API is suspended, and since when. */
interface Suspended {
  readonly reason: string;
  /** Wall clock, milliseconds. */
  readonly since: number;
}

/** Suspends one tenant cluster's API for a while after it exceeded a limit. */
export class Suspension {
  readonly #clock: Clock;
  #current: Suspended | undefined;
  /** Suspensions in a row. */
  #times = 0;
  /** End of the last suspension (monotonic). */
  #overAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The current suspension; undefined if there is none. */
  get current(): Suspended | undefined {
    return this.#current;
  }

  /** Begins a suspension and returns its milliseconds. There must be none yet. */
  begin(reason: string): number {
    if (this.#clock.monotonic() - this.#overAt >= FORGIVEN_MS) this.#times = 0;
    const ms = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#times);
    this.#times += 1;
    this.#current = { reason, since: this.#clock.now() };
    return ms;
  }

  /** Waits for the end. Resolves to false if the signal was aborted first. */
  async over(ms: number, signal: AbortSignal): Promise<boolean> {
    const waited = await pause(this.#clock, ms, signal);
    this.#current = undefined;
    this.#overAt = this.#clock.monotonic();
    return waited;
  }
}
