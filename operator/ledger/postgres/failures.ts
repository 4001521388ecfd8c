import { errorText } from '../../model/error-text.ts';
import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';

/** SQLSTATEs (https://www.postgresql.org/docs/current/errcodes-appendix.html) of lasting errors. */
const CAUSE_BY_STATE: ReadonlyMap<string, LedgerFailure['cause']> = new Map([
  ['53100', 'full'],
  ['XX001', 'corrupt'],
  ['XX002', 'corrupt'],
]);

/** Converts an exception from work on the ledger to a failure. */
export function toLedgerFailure(what: string, error: unknown): LedgerFailure {
  if (error instanceof LedgerReadError) return error.failure;
  const cause = CAUSE_BY_STATE.get(sqlState(error)) ?? 'retryable';
  return ledgerFailure(cause, `ledger: ${what}: ${errorText(error)}`);
}

/** The SQLSTATE of a server error; `''` for any other error. */
export function sqlState(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}
