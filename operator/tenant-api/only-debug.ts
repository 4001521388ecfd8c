import type { LogFields, Logger } from '../telemetry/logger.ts';

/**
 * For what watches of hundreds of tenant clusters have to say: at level debug and with the tenant
 * cluster's name. What matters of it is told once, in words of its own.
 */
export function onlyDebug(logger: Logger, fields: LogFields): Logger {
  const debug = (message: string, more?: LogFields): void =>
    logger.debug(message, { ...fields, ...more });
  return {
    debug,
    info: debug,
    warn: debug,
    error: (message, more) => logger.error(message, { ...fields, ...more }),
  };
}
