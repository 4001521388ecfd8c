import { pause } from '../kubernetes/abort.ts';
import type { Clock } from '../telemetry/clock.ts';

/** What is over a limit is left alone for this long, and for twice as long each time again; milliseconds. */
const SHORTEST_MS = 300_000;
const LONGEST_MS = 3_600_000;
/** One that has kept the limits for so long is new to them again. */
const FORGIVEN_MS = 3_600_000;

/** Why a tenant cluster's API is left alone for a while, and since when. */
interface Suspended {
  readonly reason: string;
  /** Wall clock, milliseconds. */
  readonly since: number;
}

/** Leaves one tenant cluster's API alone for a while when it is over a limit. */
export class Suspension {
  readonly #clock: Clock;
  #current: Suspended | undefined;
  /** How often in a row. */
  #times = 0;
  /** When it was last taken up again, monotonic. */
  #overAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Undefined while it is not left alone. */
  get current(): Suspended | undefined {
    return this.#current;
  }

  /** It is not left alone yet. Gives for how many milliseconds it will be. */
  begin(reason: string): number {
    if (this.#clock.monotonic() - this.#overAt >= FORGIVEN_MS) this.#times = 0;
    const ms = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#times);
    this.#times += 1;
    this.#current = { reason, since: this.#clock.now() };
    return ms;
  }

  /** Resolves when it is over; false when the signal was aborted before. */
  async over(ms: number, signal: AbortSignal): Promise<boolean> {
    const waited = await pause(this.#clock, ms, signal);
    this.#current = undefined;
    this.#overAt = this.#clock.monotonic();
    return waited;
  }
}
