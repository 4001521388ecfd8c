import type { SettingsStore } from '../config/settings.ts';
import type { AdjustableLogger } from '../telemetry/create-logger.ts';

/**
 * The log follows `logLevel` of the MeteringPolicy while the operator runs, and falls back to LOG_LEVEL
 * when the policy says nothing (design 4, 12). Each change is told, whatever the level.
 */
export function followLogLevel(settings: SettingsStore, logger: AdjustableLogger): void {
  settings.subscribe((next, previous) => {
    const { level } = next.log;
    if (level === previous.log.level) return;
    logger.setLevel('info');
    logger.info(`[controller] log level: ${level}`);
    logger.setLevel(level);
  });
}
