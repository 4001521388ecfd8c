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
 * The failure when the server has lost confirmed writes, by a failover to a lagging standby or a
 * restored backup. `head`: the newest confirmed sequence number and the server's.
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
      : 'acknowledged changes are gone';
  const text = `${what}: batch ${knownBatch} was the newest, and the server has: "${foundBatch}"`;
  const fix = 'restore a backup that has them, or restart the operator to continue without them';
  return ledgerFailure('corrupt', `ledger: stream: the newest events are missing: ${text}; ${fix}`);
}
