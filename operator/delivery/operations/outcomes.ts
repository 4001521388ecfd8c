import type { WriteOutcome } from '../../ledger/ledger.ts';
import type { ReplayResult } from '../lanes/replay-lane.ts';
import type { SetAsideEvent } from '../records/delivery-records.ts';

export interface DeadLetterPage {
  readonly deadLetters: readonly SetAsideEvent[];
  /** Start of the next page; absent on the last page. */
  readonly next?: number;
}

/** Nothing was changed, for this reason. */
export interface OperationFailed {
  readonly kind: 'failed';
  readonly reason: string;
}

/**
 * Nothing was changed: the operation concerns billing periods with final invoices, or may bill
 * twice. It needs `force`.
 */
export interface WantsForce {
  readonly kind: 'wants-force';
  /** For people: which periods or events, and the effect on the usage. */
  readonly reason: string;
}

/** The {@link WantsForce.reason} that `force` overruled; absent if there was none. */
export interface Forced {
  readonly forced?: string;
}

/** Requested ids that name no dead letter; absent if all do. */
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

/** Returns why a write failed; undefined if it did not. */
export function failureOf(outcome: WriteOutcome): OperationFailed | undefined {
  return outcome.kind === 'failed' ? { kind: 'failed', reason: outcome.message } : undefined;
}
