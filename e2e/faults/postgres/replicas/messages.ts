import type { Message } from '../messages.ts';

/** What one of several processes that have a stream open says, a line of JSON each. */
export type ReplicaMessage =
  | Exclude<Message, { readonly kind: 'acknowledged' }>
  /** It stands by. */
  | { readonly kind: 'joined' }
  /** It is the meter, and this is the newest window that the journal had then; -1 where it had none. */
  | { readonly kind: 'leads'; readonly term: number; readonly found: number }
  /** A window is stored. */
  | {
      readonly kind: 'closed';
      readonly term: number;
      readonly window: number;
      readonly head: number;
      /** Events that were offered once more. */
      readonly repeats: number;
    }
  /** A window was refused, since somebody else is the meter. */
  | { readonly kind: 'fenced'; readonly term: number }
  /** Usage of this number that was pushed to it is stored. */
  | { readonly kind: 'pushed'; readonly number: number }
  /** It holds the feeder's lease, and the cursor stood there then. */
  | { readonly kind: 'holds'; readonly epoch: number; readonly cursor: number }
  /** The cursor is stored. */
  | { readonly kind: 'moved'; readonly epoch: number; readonly cursor: number }
  /** A cursor was refused, since somebody else has the lease, or nobody. */
  | { readonly kind: 'dispossessed'; readonly epoch: number };

/** The destination that one of them feeds. */
export const DESTINATION = 'lago';
/** The lease of whoever feeds it. */
export const FEEDER = `feeder/${DESTINATION}`;

/** Written with every window: the last one that a term closed. */
export function closedInKey(term: number): string {
  return `closed-in/${term}`;
}

/** Written with every cursor: where a process that held the lease put it. Without a standby an epoch may be given twice. */
export function movedByKey(label: string, epoch: number): string {
  return `moved-by/${label}/${epoch}`;
}
