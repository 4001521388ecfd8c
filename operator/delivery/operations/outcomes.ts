import type { WriteOutcome } from '../../ledger/ledger.ts';
import type { ReplayResult } from '../lanes/replay-lane.ts';
import type { SetAsideEvent } from '../records/delivery-records.ts';

export interface DeadLetterPage {
  readonly deadLetters: readonly SetAsideEvent[];
  /** Where the next page begins; absent on the last. */
  readonly next?: number;
}

/** Nothing was changed; the reason says why. */
export interface OperationFailed {
  readonly kind: 'failed';
  readonly reason: string;
}

/** Nothing was changed: it reaches into billing periods that are invoiced for good, or may bill twice, and wants `force`. */
export interface WantsForce {
  readonly kind: 'wants-force';
  /** For people: which periods or events, and what would become of the usage. */
  readonly reason: string;
}

/** What was reached into by force, as {@link WantsForce.reason} would have said it; absent where nothing was. */
export interface Forced {
  readonly forced?: string;
}

/** Ids that were asked for and are no dead letters here; absent when all are. */
export interface Unknown {
  readonly unknown?: readonly string[];
}

export type ReplayOutcome =
  | ({ readonly kind: 'replayed' } & ReplayResult & Unknown & Forced)
  | WantsForce
  | OperationFailed;

export type DiscardOutcome =
  | ({ readonly kind: 'discarded'; readonly discarded: number } & Unknown)
  | OperationFailed;

export type MoveOutcome =
  | ({
      readonly kind: 'moved';
      readonly sequence: number;
      readonly warnings: readonly string[];
    } & Forced)
  | WantsForce
  | OperationFailed;

/** Why a write failed; undefined where it did not. */
export function failureOf(outcome: WriteOutcome): OperationFailed | undefined {
  return outcome.kind === 'failed' ? { kind: 'failed', reason: outcome.message } : undefined;
}
