import type { Cursor, LedgerFailure } from './ledger.ts';

/** A validated change of one cursor; `cursor` is undefined when there is nothing to write. */
export type CursorMove =
  | { readonly kind: 'move'; readonly cursor: Cursor | undefined }
  | LedgerFailure;

/** Checks a `commitCursor`: forward, not beyond the newest event or over an operator's move. */
export function planCommit(
  current: Cursor | undefined,
  destination: string,
  sequence: number,
  head: number,
  from: number | 'none' | undefined,
): CursorMove {
  const refusal = refusePosition(destination, sequence, head);
  if (refusal !== undefined) return refusal;
  if (from !== undefined && (current?.sequence ?? 'none') !== from) {
    const found = current === undefined ? 'dropped' : `moved to ${current.sequence}`;
    return failure('retryable', `cursor: ${destination}: ${found} meanwhile, read from: "${from}"`);
  }
  if (current !== undefined && current.sequence >= sequence) {
    if (current.retiredAt === undefined) return { kind: 'move', cursor: undefined };
    return { kind: 'move', cursor: revived(current) };
  }
  return { kind: 'move', cursor: { destination, sequence } };
}

/** Checks a `moveCursor`: any position up to the newest event. */
export function planMove(destination: string, sequence: number, head: number): CursorMove {
  return (
    refusePosition(destination, sequence, head) ?? {
      kind: 'move',
      cursor: { destination, sequence },
    }
  );
}

/** The retired cursor; undefined when there is no cursor or it is already retired. */
export function planRetire(current: Cursor | undefined, at: number): Cursor | undefined {
  if (current === undefined || current.retiredAt !== undefined) return undefined;
  return { ...current, retiredAt: at };
}

function revived(cursor: Cursor): Cursor {
  const { retiredAt: _, ...rest } = cursor;
  return rest;
}

function refusePosition(
  destination: string,
  sequence: number,
  head: number,
): LedgerFailure | undefined {
  if (!Number.isSafeInteger(sequence) || sequence < 0) {
    return failure('invalid', `cursor: ${destination}: not a sequence number: "${sequence}"`);
  }
  if (sequence > head) {
    return failure(
      'invalid',
      `cursor: ${destination}: beyond the newest event, which is ${head}: "${sequence}"`,
    );
  }
  return undefined;
}

function failure(cause: LedgerFailure['cause'], message: string): LedgerFailure {
  return { kind: 'failed', cause, message };
}
