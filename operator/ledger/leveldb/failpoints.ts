/**
 * Named steps at which a test may crash, fail or pause the ledger. Each step awaits it; in
 * production it does nothing.
 */
export type Failpoint =
  | 'set-up:before-head'
  | 'set-up:before-identity'
  | 'set-up:after-identity'
  | 'append:before-write'
  | 'append:after-write'
  | 'roll:before-create'
  | 'roll:copying'
  | 'roll:before-rename'
  | 'roll:after-rename'
  | 'roll:before-open'
  | 'retain:before-forget'
  | 'retain:after-forget'
  | 'retain:after-rename'
  | 'recover:before-open';

export type Failpoints = (step: Failpoint) => Promise<void>;

export const noFailpoints: Failpoints = async () => undefined;
