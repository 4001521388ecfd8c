import { ledgerFailure } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';

export const TAKEN_OVER = ledgerFailure(
  'fenced',
  'ledger: another process has taken the stream over',
);

export const NO_STANDBY = ledgerFailure(
  'retryable',
  'ledger: LEDGER_DURABILITY: no synchronous standby is configured: "synchronous_standby_names is empty"; set it, or LEDGER_DURABILITY=storage where the storage itself is replicated',
);

/** The server has lost what it confirmed: a failover to a standby that was behind, or a restored backup. */
export function wentBack(known: number, found: number): LedgerFailure {
  const text = `batch ${known} was acknowledged, but the newest is: "${found}"`;
  return ledgerFailure('corrupt', `ledger: stream: the newest events are missing: ${text}`);
}
