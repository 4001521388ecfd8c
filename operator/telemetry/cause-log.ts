import type { Clock } from './clock.ts';
import type { LogFields, Logger } from './logger.ts';

const QUIET_MS = 60_000;
const MAX_CAUSES = 1_000;

/** Logs trouble that repeats: at most one line a minute for each cause (docs/operations.md#log-lines). */
export interface CauseLog {
  warn(cause: string, message: string, fields?: LogFields): void;
  error(cause: string, message: string, fields?: LogFields): void;
}

export function createCauseLog(logger: Logger, clock: Clock): CauseLog {
  const causes = new Map<string, { readonly at: number; suppressed: number }>();
  const log = (
    level: 'warn' | 'error',
    cause: string,
    message: string,
    fields: LogFields = {},
  ): void => {
    const now = clock.monotonic();
    const last = causes.get(cause);
    if (last !== undefined && now - last.at < QUIET_MS) {
      last.suppressed += 1;
      return;
    }
    if (causes.size >= MAX_CAUSES) causes.clear();
    causes.set(cause, { at: now, suppressed: 0 });
    const more = last?.suppressed ?? 0;
    logger[level](more === 0 ? message : `${message} (${more} more like this)`, fields);
  };
  return {
    warn: (cause, message, fields) => log('warn', cause, message, fields),
    error: (cause, message, fields) => log('error', cause, message, fields),
  };
}
