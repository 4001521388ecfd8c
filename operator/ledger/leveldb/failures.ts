import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';

const CAUSE_BY_CODE: ReadonlyMap<string, LedgerFailure['cause']> = new Map([
  ['LEVEL_LOCKED', 'fenced'],
  ['LEVEL_CORRUPTION', 'corrupt'],
  ['ENOSPC', 'full'],
  ['EDQUOT', 'full'],
]);

/** LevelDB reports errors of the operating system as text only. */
const NO_ROOM = /No space left on device|Disk quota exceeded|File too large/;

/** Converts an exception from work on the ledger to a failure. */
export function toLedgerFailure(what: string, error: unknown): LedgerFailure {
  const texts: string[] = [];
  let cause: LedgerFailure['cause'] = 'retryable';
  for (let current = error; current instanceof Error; current = current.cause) {
    if (current instanceof LedgerReadError) return current.failure;
    texts.push(current.message);
    const code = 'code' in current && typeof current.code === 'string' ? current.code : '';
    cause = CAUSE_BY_CODE.get(code) ?? (NO_ROOM.test(current.message) ? 'full' : cause);
  }
  return ledgerFailure(cause, `ledger: ${what}: ${texts.join(': ') || String(error)}`);
}

/** Whether the database is open elsewhere, in another process or in this one. */
export function isLocked(error: unknown): boolean {
  for (let current = error; current instanceof Error; current = current.cause) {
    if ('code' in current && current.code === 'LEVEL_LOCKED') return true;
  }
  return false;
}
