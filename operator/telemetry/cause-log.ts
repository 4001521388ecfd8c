import type { Clock } from './clock.ts';
import type { LogFields, Logger } from './logger.ts';

const QUIET_MS = 60_000;
const MAX_CAUSES = 1_000;

/**
 * Logs repeated trouble: at most one line a minute for each cause
 * (docs/reference/troubleshooting.md#log-lines).
 */
export class CauseLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #causes = new Map<string, { readonly at: number; suppressed: number }>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  warn(cause: string, message: string, fields?: LogFields): void {
    this.#log('warn', cause, message, fields);
  }

  error(cause: string, message: string, fields?: LogFields): void {
    this.#log('error', cause, message, fields);
  }

  #log(level: 'warn' | 'error', cause: string, message: string, fields: LogFields = {}): void {
    const now = this.#clock.monotonic();
    const last = this.#causes.get(cause);
    if (last !== undefined && now - last.at < QUIET_MS) {
      last.suppressed += 1;
      return;
    }
    if (this.#causes.size >= MAX_CAUSES) this.#causes.clear();
    this.#causes.set(cause, { at: now, suppressed: 0 });
    const more = last?.suppressed ?? 0;
    this.#logger[level](more === 0 ? message : `${message} (${more} more like this)`, fields);
  }
}
