import type { LedgerFailure } from '../../../operator/ledger/ledger.ts';

/** What the writing process says, a line of JSON each. */
export type Message =
  /** The window and its records are stored, and a cursor stands at `cursor`. */
  | {
      readonly kind: 'acknowledged';
      readonly window: number;
      readonly head: number;
      readonly cursor: number;
      /** Credits of each prepaid balance. */
      readonly credits: number;
      /** Events that were offered once more. */
      readonly repeats: number;
    }
  /** The ledger could not take it for now, and is asked again. */
  | { readonly kind: 'refused'; readonly cause: LedgerFailure['cause'] }
  /** Something that must never happen did. */
  | { readonly kind: 'wrong'; readonly text: string }
  /** The ledger takes nothing any more. */
  | { readonly kind: 'stopped'; readonly cause: LedgerFailure['cause']; readonly message: string };
