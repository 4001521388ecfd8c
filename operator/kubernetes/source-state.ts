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
