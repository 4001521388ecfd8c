/** Milliseconds. */
export interface LeaseTimings {
  /** For how long others leave the lease alone after they have seen a renewal. */
  readonly duration: number;
  /** A leader that could not renew for so long stops; before the others may begin. */
  readonly renewDeadline: number;
  /** How often a leader renews, give or take one `retry`; sooner where its ledger has grown. */
  readonly renew: number;
  /** Between looks at whether to renew, or attempts to acquire, give or take. */
  readonly retry: number;
}

/** client-go's. */
export const DEFAULT_TIMINGS: LeaseTimings = {
  duration: 15_000,
  renewDeadline: 10_000,
  renew: 2_000,
  retry: 2_000,
};
