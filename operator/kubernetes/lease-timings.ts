/** Timing of leader election, milliseconds. */
export interface LeaseTimings {
  /** How long other processes wait after the last renewal that they saw. */
  readonly duration: number;
  /** A leader stops when it could not renew for this long; shorter than `duration`. */
  readonly renewDeadline: number;
  /** Time between renewals, within one `retry`; earlier when the ledger has grown. */
  readonly renew: number;
  /** Time between checks whether to renew, and between attempts to acquire (up to 20 % longer). */
  readonly retry: number;
}

/** The defaults of client-go. */
export const DEFAULT_TIMINGS: LeaseTimings = {
  duration: 15_000,
  renewDeadline: 10_000,
  renew: 2_000,
  retry: 2_000,
};
