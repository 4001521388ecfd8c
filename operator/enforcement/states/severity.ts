import type { BillingState } from '../../config/settings.ts';

/** The states from the least to the most severe (design 7, Enforcement). */
export const BILLING_STATES: readonly BillingState[] = [
  'active',
  'warning',
  'delinquent',
  'suspended',
];

/** Above 0 when `a` is more severe than `b`. */
export function compareSeverity(a: BillingState, b: BillingState): number {
  return BILLING_STATES.indexOf(a) - BILLING_STATES.indexOf(b);
}
