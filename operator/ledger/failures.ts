import type { Logger } from '../telemetry/logger.ts';
import { type LedgerFailure, LedgerReadError } from './ledger.ts';

export function ledgerFailure(cause: LedgerFailure['cause'], message: string): LedgerFailure {
  return { kind: 'failed', cause, message };
}

/** The error for damaged bytes at a named place. */
export function damage(where: string, what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('corrupt', `ledger: ${where}: ${what}`));
}

const MAX_PROBLEMS = 20;

/** Collects the damage that was found and logs each text once. */
export class Problems {
  readonly #logger: Logger;
  readonly #texts = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(text: string): void {
    if (this.#texts.has(text) || this.#texts.size >= MAX_PROBLEMS) return;
    this.#texts.add(text);
    this.#logger.error(`[ledger] ${text}`);
  }

  list(): readonly string[] {
    return [...this.#texts];
  }
}
