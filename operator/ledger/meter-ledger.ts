import type { Ledger } from './ledger.ts';

/**
 * The record that a meter writes anew with each of its windows: where it is as it was left, no other meter has
 * written windows since.
 */
export const METER_STATE_KEY = 'journal/state';

/** What the meter writes by, and reads of its own: windows, journal, gaps, ids of tenants. */
export interface MeterLedger
  extends Pick<Ledger, 'append' | 'stats' | 'record' | 'records' | 'writeRecords'> {
  /** Absent where everything that is acknowledged is in the ledger itself. */
  readonly spooling?: Spooling;
}

/** How far the ledger has what was acknowledged (docs/ledger-format.md#the-spool). */
export interface Spooling {
  /** Whether the ledger has all of it. */
  isEmpty(): boolean;
  /** A sequence number up to which the ledger has all that ever came out of the spool; 0 before anything did. */
  drainedTo(): number;
}
