import type { Logger } from '../telemetry/logger.ts';
import { type LedgerFailure, LedgerReadError } from './ledger.ts';

export function ledgerFailure(cause: LedgerFailure['cause'], message: string): LedgerFailure {
  return { kind: 'failed', cause, message };
}

/** Damaged bytes at a named place. */
export function damage(where: string, what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('corrupt', `ledger: ${where}: ${what}`));
}

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
