import type { Logger } from '../../telemetry/logger.ts';

/** A logger that keeps its lines for the test to look at. */
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
