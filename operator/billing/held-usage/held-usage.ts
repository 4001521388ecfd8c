import type { EventOutcome, LedgerFailure } from '../../ledger/ledger.ts';

/** Most held events at once. It refuses further pushes, so memory and records stay bounded. */
export const MOST_HELD = 20_000;

/** `outcomes[i]` belongs to `events[i]`. A held event is `accepted`. */
export type PushOutcome =
  | {
      readonly kind: 'appended';
      readonly outcomes: readonly EventOutcome[];
      /** How many of the accepted events and duplicates are held, by tenant. */
      readonly held: ReadonlyMap<string, number>;
    }
  /** Nothing is recorded: the limit of held events is reached. */
  | { readonly kind: 'too-much-held' }
  | LedgerFailure;

export type HeldDecision =
  | {
      readonly kind: 'decided';
      /** The number of held events that were appended or discarded. */
      readonly events: number;
      /** How many of those the ledger already had under the new name. */
      readonly duplicates: number;
      /** Ids that the ledger has with another quantity under the new name. They stay held. */
      readonly conflicts: readonly string[];
    }
  | { readonly kind: 'none-held' }
  /** Nothing changed; `reason` is safe to show. */
  | { readonly kind: 'refused'; readonly reason: string }
  | LedgerFailure;
