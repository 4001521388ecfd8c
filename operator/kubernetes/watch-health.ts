import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { pause } from '../telemetry/abort.ts';
import type { SourceState } from './source.ts';

/** A view must stay complete for this long to count as recovered. */
const LASTING_MS = 30_000;

/**
 * Tracks the state of a source and logs each change of it once. Callers can wait for the first good
 * state.
 */
export class SourceStateTracker {
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

  /** See {@link SourceHealth.returnedAt}. */
  get returnedAt(): number | undefined {
    return this.#returnedAt;
  }

  become(next: SourceState, reason?: string): void {
    const changed = next !== this.#state;
    if (!changed && reason === this.#reason) return;
    if (changed) this.#recordChange(next);
    this.#log(next, reason);
    this.#state = next;
    this.#reason = reason;
    if (next === 'synced' || next === 'absent') this.#arrived.resolve();
  }

  /** A watch is open. The view is complete after `settlingMs`, when missed changes are here. */
  resumed(settlingMs: number, signal: AbortSignal): void {
    if (this.#state === 'synced') return;
    void pause(this.#clock, settlingMs, signal).then((waited) => {
      if (waited) this.become('synced');
    });
  }

  /** Resolves once the source was synced or absent; rejects if the signal is aborted before. */
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

  /** Records the time of the change to `next`. */
  #recordChange(next: SourceState): void {
    const now = this.#clock.now();
    if (this.#state === 'synced') this.#wasLasting = now - this.#since >= LASTING_MS;
    // Otherwise a watch that fails repeatedly would delay windows for ever.
    if (next === 'synced' && this.#wasLasting) this.#returnedAt = now;
    this.#since = now;
  }

  #log(next: SourceState, reason: string | undefined): void {
    const logger = this.#logger;
    const resource = this.#resource;
    if (next === 'failing') {
      logger.warn(`[controller] cannot watch ${resource}: ${reason ?? 'unknown'}; retrying`);
      return;
    }
    if (next === this.#state) return;
    if (next === 'absent') {
      logger.info(
        `[controller] ${resource} are not served by the API server; checking again later`,
      );
    }
    if (next === 'synced') logger.info(`[controller] watching ${resource}`);
  }
}

const BURST_MS = 5_000;
/** A resumed watch may bring old changes for this long after it opened, milliseconds. */
export const CATCH_UP_MS = 30_000;

/**
 * Tracks until when the current versions are known to have been the latest. An event proves that
 * every earlier change has arrived. Delayed events arrive together, however, and the first of a
 * burst proves nothing about the second. So an arrival counts only when it is a few seconds old,
 * and not while a resumed watch catches up. Times are wall clock, milliseconds.
 */
export class WatchFreshness {
  #lastAt = 0;
  #confirmed: number;
  #candidate: number;
  #catchingUpUntil = Number.NEGATIVE_INFINITY;

  /** `knownAt`: when an earlier process's versions were last known to be current; 0 if none. */
  constructor(knownAt: number) {
    this.#confirmed = knownAt;
    this.#candidate = knownAt;
  }

  /** When the last list, event or bookmark arrived; 0 before the first. */
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

  /** A complete list, requested at `at`, confirmed every version. */
  confirm(at: number): void {
    this.#lastAt = at;
    this.#confirmed = at;
    this.#candidate = at;
    this.#catchingUpUntil = Number.NEGATIVE_INFINITY;
  }

  /** A watch resumed from an earlier version: the next events may be old. */
  resume(at: number): void {
    this.#catchingUpUntil = at + CATCH_UP_MS;
  }

  /** Until when the previous version was known to be current, for a change that arrives at `at`. */
  knownUntil(at: number): number {
    return Math.min(at, at - this.#candidate < BURST_MS ? this.#confirmed : this.#candidate);
  }
}
