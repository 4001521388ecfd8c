import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { pause } from './abort.ts';
import type { SourceState } from './source.ts';

/** A view that was whole for less than this before it failed again had not really come back. */
const LASTING_MS = 30_000;

/** Keeps a source's state, logs each change of it once, and lets others wait for the first good one. */
export class StateStore {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #resource: string;
  #state: SourceState = 'starting';
  #since: number;
  #reason: string | undefined;
  #returnedAt: number | undefined;
  #wasLasting = true;
  readonly #arrived = Promise.withResolvers<void>();

  /** `resource` names the source in log lines. */
  constructor(clock: Clock, logger: Logger, resource: string) {
    this.#clock = clock;
    this.#logger = logger;
    this.#resource = resource;
    this.#since = clock.now();
  }

  get state(): SourceState {
    return this.#state;
  }

  get since(): number {
    return this.#since;
  }

  get reason(): string | undefined {
    return this.#reason;
  }

  /** As `SourceHealth` has it. */
  get returnedAt(): number | undefined {
    return this.#returnedAt;
  }

  become(next: SourceState, reason?: string): void {
    const changed = next !== this.#state;
    if (!changed && reason === this.#reason) return;
    if (changed) this.#date(next);
    this.#log(next, reason);
    this.#state = next;
    this.#reason = reason;
    if (next === 'synced' || next === 'absent') this.#arrived.resolve();
  }

  /** A watch is open. The view is whole when what was missed has had `settlingMs` to arrive. */
  resumed(settlingMs: number, signal: AbortSignal): void {
    if (this.#state === 'synced') return;
    void pause(this.#clock, settlingMs, signal).then((waited) => {
      if (waited) this.become('synced');
    });
  }

  /** Resolves when the source has been synced or absent once; rejects when the signal is aborted before. */
  ready(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(new Error(`waiting for ${this.#resource}: aborted`));
      if (signal.aborted) {
        abort();
        return;
      }
      signal.addEventListener('abort', abort, { once: true });
      void this.#arrived.promise.then(() => {
        signal.removeEventListener('abort', abort);
        resolve();
      });
    });
  }

  /** Notes when the state changes to `next`. */
  #date(next: SourceState): void {
    const now = this.#clock.now();
    if (this.#state === 'synced') this.#wasLasting = now - this.#since >= LASTING_MS;
    // Else a watch that fails again and again would hold up windows for ever.
    if (next === 'synced' && this.#wasLasting) this.#returnedAt = now;
    this.#since = now;
  }

  #log(next: SourceState, reason: string | undefined): void {
    const logger = this.#logger;
    const resource = this.#resource;
    if (next === 'failing') {
      logger.warn(`[controller] cannot watch ${resource}: ${reason ?? 'unknown'}; trying again`);
      return;
    }
    if (next === this.#state) return;
    if (next === 'absent') {
      logger.info(`[controller] ${resource} are not served by the API server; looking again later`);
    }
    if (next === 'synced') logger.info(`[controller] watching ${resource}`);
  }
}

const BURST_MS = 5_000;
/** For so long after it is opened a resumed watch may bring what is old, milliseconds. */
export const CATCH_UP_MS = 30_000;

/**
 * Until when the versions we hold are known to have been the last ones. An event proves that
 * everything before it has arrived, but events that were held up arrive together: the first of a
 * burst must not vouch for the second. So an arrival counts only once it is a few seconds old, and
 * not while a resumed watch is catching up. Times are those of the wall clock, milliseconds.
 */
export class WatchFreshness {
  #lastAt = 0;
  #confirmed: number;
  #candidate: number;
  #catchingUpUntil = Number.NEGATIVE_INFINITY;

  /** `knownAt` is when the versions of an earlier process were last known to hold; 0 without any. */
  constructor(knownAt: number) {
    this.#confirmed = knownAt;
    this.#candidate = knownAt;
  }

  /** When the API server was last heard of; 0 before the first time. */
  get lastAt(): number {
    return this.#lastAt;
  }

  /** An event or bookmark arrived. */
  arrived(at: number): void {
    this.#lastAt = at;
    if (at < this.#catchingUpUntil || at - this.#candidate < BURST_MS) return;
    this.#confirmed = this.#candidate;
    this.#candidate = at;
  }

  /** A whole list, asked for at `at`, confirmed every version. */
  confirm(at: number): void {
    this.#lastAt = at;
    this.#confirmed = at;
    this.#candidate = at;
    this.#catchingUpUntil = Number.NEGATIVE_INFINITY;
  }

  /** A watch was opened where an earlier one left off: what follows may be old. */
  resume(at: number): void {
    this.#catchingUpUntil = at + CATCH_UP_MS;
  }

  /** For a change that arrives at `at`. */
  knownUntil(at: number): number {
    return Math.min(at, at - this.#candidate < BURST_MS ? this.#confirmed : this.#candidate);
  }
}
