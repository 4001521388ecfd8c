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

/**
 * The server has lost what it confirmed: a failover to a standby that was behind, or a restored backup.
 * `head`: the newest sequence number that was confirmed, and the one that the server has.
 */
export function wentBack(
  knownBatch: number,
  foundBatch: number,
  head?: { readonly known: number; readonly found: number },
): LedgerFailure {
  const events = head === undefined ? 0 : head.known - head.found;
  const what =
    head !== undefined && events > 0
      ? `events ${head.found + 1} to ${head.known} (${events}) were acknowledged and are gone`
      : 'what was acknowledged with them is gone';
  const text = `${what}: batch ${knownBatch} was the newest, and now is: "${foundBatch}"`;
  const fix = 'restore what has them, or start the operator again to go on without them';
  return ledgerFailure('corrupt', `ledger: stream: the newest events are missing: ${text}; ${fix}`);
}
