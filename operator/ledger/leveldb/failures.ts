import { ledgerFailure } from '../failures.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';

const CAUSE_BY_CODE: ReadonlyMap<string, LedgerFailure['cause']> = new Map([
  ['LEVEL_LOCKED', 'fenced'],
  ['LEVEL_CORRUPTION', 'corrupt'],
  ['ENOSPC', 'full'],
  ['EDQUOT', 'full'],
]);

/** LevelDB reports what the system said as text only. */
const NO_ROOM = /No space left on device|Disk quota exceeded|File too large/;

/** Whatever was thrown while working on the ledger, as an outcome. */
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

/** Whether another process, or another part of this one, has the database open. */
export function isLocked(error: unknown): boolean {
  for (let current = error; current instanceof Error; current = current.cause) {
    if ('code' in current && current.code === 'LEVEL_LOCKED') return true;
  }
  return false;
}
