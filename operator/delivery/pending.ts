import type { Ledger, LedgerFailure, RecordChange } from '../ledger/ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { JudgedEntry } from './book-keeping.ts';
import type { Entry, Verdict } from './entry.ts';

interface PendingEntry extends Entry {
  verdict?: Verdict;
}

/**
 * The events between the cursor and what was read: the cursor passes an event only when its verdict is
 * in, and the records that the verdict asks for are part of the same durable write (promise P5).
 */
export interface Pending {
  /** Where the cursor stands. */
  position(): number;
  reset(position: number): void;
  isEmpty(): boolean;
  first(): Entry | undefined;
  /** Reads on; does nothing while something is pending. */
  read(limits: ReadLimits): Promise<LedgerFailure | undefined>;
  /** Events without a verdict, in order. */
  open(): readonly Entry[];
  settle(verdicts: ReadonlyMap<number, Verdict>): void;
  /** Whether it was delivered, the cursor not having passed it yet. */
  isDelivered(sequence: number): boolean;
  /** Moves the cursor over what is settled at the front. */
  commit(
    recordsOf: (passed: readonly JudgedEntry[]) => readonly RecordChange[],
  ): Promise<CommitReport>;
}

export interface ReadLimits {
  readonly events: number;
  readonly bytes?: number;
  readonly bytesOf?: (event: UsageEvent) => number;
  readonly wants: (event: UsageEvent) => boolean;
}

export type CommitReport =
  | { readonly kind: 'committed'; readonly passed: readonly JudgedEntry[] }
  | LedgerFailure;

const SKIPPED: Verdict = { kind: 'skipped' };

export function createPending(ledger: Ledger, cursorName: string): Pending {
  let entries: PendingEntry[] = [];
  let position = 0;

  /**
   * Moves the cursor over numbers that the ledger has given and lost, and has nothing after: it tells
   * of them itself, and whoever waited before them would be told for ever that there is news.
   */
  const passMissing = async (lastSequence: number): Promise<LedgerFailure | undefined> => {
    if (lastSequence <= position) return undefined;
    const outcome = await ledger.commitCursor(cursorName, lastSequence, { from: position });
    if (outcome.kind === 'failed') return outcome;
    position = lastSequence;
    return undefined;
  };

  return {
    position: () => position,
    reset: (sequence) => {
      entries = [];
      position = sequence;
    },
    isEmpty: () => entries.length === 0,
    first: () => entries[0],

    read: async ({ events, bytes, bytesOf, wants }) => {
      if (entries.length > 0) return undefined;
      const page = await ledger.read(position, events);
      if (page.kind === 'failed') return page;
      if (page.events.length === 0) return passMissing(page.lastSequence);
      let size = 0;
      for (const { sequence, event } of page.events) {
        if (!wants(event)) {
          entries.push({ sequence, event, verdict: SKIPPED });
          continue;
        }
        size += bytesOf?.(event) ?? 0;
        const fits = bytes === undefined || size <= bytes || entries.every(isSettled);
        if (!fits) break;
        entries.push({ sequence, event });
      }
      return undefined;
    },
    open: () => entries.filter((entry) => !isSettled(entry)),
    settle: (verdicts) => {
      for (const entry of entries) {
        const verdict = verdicts.get(entry.sequence);
        if (verdict !== undefined) entry.verdict = verdict;
      }
    },
    isDelivered: (sequence) =>
      entries.some((entry) => entry.sequence === sequence && entry.verdict?.kind === 'delivered'),

    commit: async (recordsOf) => {
      const passed = settledFront(entries);
      const last = passed.at(-1);
      if (last === undefined) return { kind: 'committed', passed };
      const records = recordsOf(passed);
      const from = position;
      const outcome = await ledger.commitCursor(cursorName, last.sequence, { from, records });
      if (outcome.kind === 'failed') return outcome;
      entries = entries.slice(passed.length);
      position = last.sequence;
      return { kind: 'committed', passed };
    },
  };
}

function isSettled(entry: PendingEntry): boolean {
  return entry.verdict !== undefined;
}

function settledFront(entries: readonly PendingEntry[]): JudgedEntry[] {
  const passed: JudgedEntry[] = [];
  for (const { sequence, event, verdict } of entries) {
    if (verdict === undefined) break;
    passed.push({ sequence, event, verdict });
  }
  return passed;
}
