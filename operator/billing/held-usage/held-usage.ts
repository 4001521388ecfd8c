import type { EventOutcome, LedgerFailure } from '../../ledger/ledger.ts';

/** Held events that there may be at once; more are not taken, so that memory and records stay bounded. */
export const MOST_HELD = 20_000;

/** A tenant that nobody knows and that usage was pushed for. */
export interface HeldTenant {
  readonly tenant: string;
  readonly events: number;
  /** When the first of them came, milliseconds since the epoch. */
  readonly since: number;
}

/** A tenant that usage was pushed for and that discovery does not know. */
export interface PushedTenant {
  readonly id: string;
  /** When usage of it first came, milliseconds since the epoch. */
  readonly since: number;
}

/** `outcomes[i]` belongs to `events[i]`; what is held counts as accepted. */
export type PushOutcome =
  | {
      readonly kind: 'appended';
      readonly outcomes: readonly EventOutcome[];
      /** How many of the accepted events and repeats are held, by tenant. */
      readonly held: ReadonlyMap<string, number>;
    }
  /** Nothing is recorded: too much is held already. */
  | { readonly kind: 'too-much-held' }
  | LedgerFailure;

export type HeldDecision =
  | {
      readonly kind: 'decided';
      /** Events that went on, or were given up. */
      readonly events: number;
      /** Of those the ones that were recorded under the new name before. */
      readonly duplicates: number;
      /** Ids that the new name has with another quantity: these events are still held. */
      readonly conflicts: readonly string[];
    }
  | { readonly kind: 'none-held' }
  /** Nothing is changed; says why. */
  | { readonly kind: 'refused'; readonly reason: string }
  | LedgerFailure;
