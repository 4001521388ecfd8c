import type { Logger } from '../../telemetry/logger.ts';

/** A logger that stores its lines for the test. */
export interface CapturingLogger extends Logger {
  readonly lines: readonly string[];
}

export function createCapturingLogger(): CapturingLogger {
  const lines: string[] = [];
  const at =
    (level: string) =>
    (message: string): void => {
      lines.push(`${level} ${message}`);
    };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
