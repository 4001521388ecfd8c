import { ledgerFailure } from '../failures.ts';
import type { LedgerFailure } from '../ledger.ts';
import type { StreamState } from './state.ts';

export const TAKEN_OVER = ledgerFailure(
  'fenced',
  'ledger: another process has taken the stream over',
);

export const LEASE_LOST = ledgerFailure(
  'fenced',
  'ledger: another process has taken the lease over, or nobody has it',
);

/** Its transaction begins anew, with what is there now. */
export const BEGIN_ANEW = ledgerFailure(
  'retryable',
  'ledger: another process writes the stream on another day',
);

/** What was written before the lock was taken is taken back. */
export const NOT_AS_KNOWN = ledgerFailure(
  'retryable',
  'ledger: another process has written the stream meanwhile',
);

/** It has written nothing for so long that it was taken for gone, or the server has lost what it confirmed. */
export const FORGOTTEN = ledgerFailure(
  'fenced',
  'ledger: stream: it does not know this process any more; start the operator again',
);

export const NO_STANDBY = ledgerFailure(
  'retryable',
  'ledger: LEDGER_DURABILITY: no synchronous standby is configured: "synchronous_standby_names is empty"; set it, or LEDGER_DURABILITY=storage where the storage itself is replicated',
);

/** The server has lost what it confirmed: a failover to a standby that was behind, or a restored backup. */
export function wentBack(known: StreamState, found: StreamState): LedgerFailure {
  const events = known.head - found.head;
  const what =
    events > 0
      ? `events ${found.head + 1} to ${known.head} (${events}) were acknowledged and are gone`
      : 'what was acknowledged with them is gone';
  const text = `${what}: batch ${known.batch} was the newest, and now is: "${found.batch}"`;
  const mend = 'restore what has them, or start the operator again to go on without them';
  return ledgerFailure(
    'corrupt',
    `ledger: stream: the newest events are missing: ${text}; ${mend}`,
  );
}
