import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import type { CursorMove } from '../cursor-moves.ts';
import type { AppendOutcome, Cursor, LedgerFailure } from '../ledger.ts';
import type { SealedSegment } from './state.ts';

/** A change of one entry: a record, a cursor or a line of the list of sealed segments. */
export interface EntryChange {
  readonly key: Buffer;
  /** undefined deletes. */
  readonly body: string | undefined;
}

/** An event that is to be stored, and its text, by which the room it takes is known. */
export interface EncodedEvent {
  readonly event: UsageEvent;
  readonly text: string;
}

export function encodeEvents(events: readonly UsageEvent[]): readonly EncodedEvent[] {
  return events.map((event) => ({ event, text: encodeEvent(event) }));
}

/** What a caller wants written. Requests that wait together become one batch. */
export type Request =
  | {
      readonly kind: 'append';
      readonly events: readonly EncodedEvent[];
      readonly changes: readonly EntryChange[];
      readonly windowEnd?: number;
    }
  | {
      readonly kind: 'cursor';
      readonly destination: string;
      /** Decides on the cursor as it is when the batch is made; `drop` deletes it. */
      readonly plan: (current: Cursor | undefined, head: number) => CursorMove | 'drop';
      /** Made unless the plan fails. */
      readonly changes?: readonly EntryChange[];
    }
  /** Retention: forgets the oldest sealed segment. */
  | { readonly kind: 'forget'; readonly segment: SealedSegment }
  /** An operator accepts the damage of a sealed segment. */
  | { readonly kind: 'give-up'; readonly segment: SealedSegment };

/** What became of a request: `appended` for every kind that was written. */
export type RequestOutcome = Extract<AppendOutcome, { kind: 'appended' }> | LedgerFailure;
