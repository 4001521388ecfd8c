import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SourceState } from './source.ts';

/** Keeps a source's state, logs its turns once each, and lets others wait for the first good one. */
export interface StateKeeper {
  readonly state: SourceState;
  readonly since: number;
  readonly reason: string | undefined;
  /** As `SourceHealth` has it. */
  readonly returnedAt: number | undefined;
  become(state: SourceState, reason?: string): void;
  ready(signal: AbortSignal): Promise<void>;
}

export interface StateKeeperOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** For log lines. */
  readonly resource: string;
}

/** A view that was whole for less than this before it failed again had not really come back. */
const LASTING_MS = 30_000;

export function createStateKeeper({ clock, logger, resource }: StateKeeperOptions): StateKeeper {
  let state: SourceState = 'starting';
  let since = clock.now();
  let reason: string | undefined;
  let returnedAt: number | undefined;
  let wasLasting = true;
  let arrive = (): void => undefined;
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });

  function become(next: SourceState, nextReason?: string): void {
    const turned = next !== state;
    if (!turned && nextReason === reason) return;
    if (turned) turn(next);
    report(state, next, nextReason);
    state = next;
    reason = nextReason;
    if (next === 'synced' || next === 'absent') arrive();
  }

  function turn(next: SourceState): void {
    const now = clock.now();
    if (state === 'synced') wasLasting = now - since >= LASTING_MS;
    // Else a watch that fails again and again would hold up windows for ever.
    if (next === 'synced' && wasLasting) returnedAt = now;
    since = now;
  }

  function report(from: SourceState, to: SourceState, why: string | undefined): void {
    if (to === 'failing') {
      logger.warn(`[controller] cannot watch ${resource}: ${why ?? 'unknown'}; trying again`);
      return;
    }
    if (to === 'absent' && from !== 'absent') {
      logger.info(`[controller] ${resource} are not served by the API server; looking again later`);
      return;
    }
    if (to === 'synced' && from !== 'synced') logger.info(`[controller] watching ${resource}`);
  }

  return {
    get state() {
      return state;
    },
    get since() {
      return since;
    },
    get reason() {
      return reason;
    },
    get returnedAt() {
      return returnedAt;
    },
    become,
    ready: (signal) =>
      new Promise((resolve, reject) => {
        const abort = (): void => reject(new Error(`waiting for ${resource}: aborted`));
        if (signal.aborted) {
          abort();
          return;
        }
        signal.addEventListener('abort', abort, { once: true });
        void arrived.then(() => {
          signal.removeEventListener('abort', abort);
          resolve();
        });
      }),
  };
}

/**
 * Until when the versions we hold are known to have been the last ones. An event proves that
 * everything before it has arrived, but events that were held up arrive together: the first of a
 * burst must not vouch for the second. So a contact counts only once it is a few seconds old, and
 * not while a resumed watch is catching up.
 */
export interface ContactLog {
  /** Wall clock of the last contact; 0 before the first. */
  readonly last: number;
  /** An event or bookmark arrived. */
  touch(at: number): void;
  /** A whole list, asked for at `at`, confirmed every version. */
  confirm(at: number): void;
  /** A watch was opened where an earlier one left off: what follows may be old. */
  resume(at: number): void;
  /** For a change that arrives at `at`. */
  knownUntil(at: number): number;
}

const BURST_MS = 5_000;
const CATCH_UP_MS = 30_000;

export function createContactLog(knownAt: number): ContactLog {
  let last = 0;
  let confirmed = knownAt;
  let candidate = knownAt;
  let catchingUpUntil = Number.NEGATIVE_INFINITY;

  return {
    get last() {
      return last;
    },
    touch: (at) => {
      last = at;
      if (at < catchingUpUntil || at - candidate < BURST_MS) return;
      confirmed = candidate;
      candidate = at;
    },
    confirm: (at) => {
      last = at;
      confirmed = at;
      candidate = at;
      catchingUpUntil = Number.NEGATIVE_INFINITY;
    },
    resume: (at) => {
      catchingUpUntil = at + CATCH_UP_MS;
    },
    knownUntil: (at) => Math.min(at, at - candidate < BURST_MS ? confirmed : candidate),
  };
}
