import type { Logger } from '../../telemetry/logger.ts';

/** Damage that was found, each told once. */
export interface Problems {
  add(text: string): void;
  list(): readonly string[];
}

const MAX_PROBLEMS = 20;

export function createProblems(logger: Logger): Problems {
  const texts = new Set<string>();
  return {
    add(text) {
      if (texts.has(text) || texts.size >= MAX_PROBLEMS) return;
      texts.add(text);
      logger.error(`[ledger] ${text}`);
    },
    list: () => [...texts],
  };
}
