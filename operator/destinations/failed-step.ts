/** Why a step failed. `rejected` concerns only this tenant (or this bootstrap). */
export type FailedStep =
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'rejected'; readonly reason: string };
