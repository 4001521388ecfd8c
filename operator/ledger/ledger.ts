import type { UsageEvent } from '../model/event.ts';
import type { Rollups } from './rollups.ts';

/**
 * The ledger: a durable, ordered, deduplicated sequence of usage events with one cursor per
 * destination. Everything above this interface is ignorant of the storage behind it. What it promises
 * is in docs/reference/ledger-format.md#promises; `testing/conformance.ts` tests it on every implementation.
 */
export interface Ledger {
  /** Events and records as one durable unit: when it resolves `appended` they survive a power cut; otherwise nothing of them counts. */
  append(batch: AppendBatch): Promise<AppendOutcome>;
  /** Up to `limit` events after a sequence number, in order. An empty page means that the reader has caught up. */
  read(afterSequence: number, limit: number): Promise<ReadOutcome>;
  /**
   * Events whose window starts in `[from, to)`, in ledger order; for export and sums. Throws a
   * {@link LedgerReadError} where stored bytes are damaged, so that no sum is silently too small.
   */
  scan(from: number, to: number, signal?: AbortSignal): AsyncIterable<StoredEvent>;
  /** The event of an id; undefined when it was never stored or is no longer kept. Rejects with a {@link LedgerReadError} where stored bytes are damaged. */
  find(id: string): Promise<UsageEvent | undefined>;
  /** The sequence number of the newest event; 0 when there is none. */
  head(): number;
  /** The sequence number before the oldest event that is still stored. */
  lowWater(): number;
  /** Resolves when the head has passed `afterSequence`; rejects with the signal's reason. */
  changed(afterSequence: number, signal: AbortSignal): Promise<void>;

  /** The cursors of all destinations, retired ones included. */
  cursors(): readonly Cursor[];
  /**
   * Durably moves a destination's cursor forward (never back), creating it when there is none, and
   * changes records in the same durable unit: an event that a cursor passes undelivered is parked
   * by the very write that passes it.
   */
  commitCursor(destination: string, sequence: number, commit?: CursorCommit): Promise<WriteOutcome>;
  /** Durably puts a cursor at any position; only for operators, who accept that destinations may bill twice. */
  moveCursor(destination: string, sequence: number): Promise<WriteOutcome>;
  /** Marks a cursor as retired at `at`: it holds back retention only until `at` + retention (docs/reference/ledger-format.md#deletion). Appending to it again revives it. */
  retireCursor(destination: string, at: number): Promise<WriteOutcome>;
  /** Forgets a cursor. */
  dropCursor(destination: string): Promise<WriteOutcome>;

  /** A small record kept beside the events (journal, gaps, tenant ids, dead letters, billing states). */
  record(key: string): Promise<string | undefined>;
  /** All records whose key begins with `prefix`, in key order. */
  records(prefix: string): AsyncIterable<readonly [key: string, value: string]>;
  /** Durably changes records without appending an event. */
  writeRecords(changes: readonly RecordChange[]): Promise<WriteOutcome>;

  /**
   * Compares with a position that was noted outside of the ledger, before anything is appended; a position of
   * another ledger says nothing. Where the newest events are missing or have become others, that is a problem
   * from then on, and numbers up to the anchor's are not given again (docs/reference/ledger-format.md#a-head-that-went-back).
   */
  compareWith(anchor: LedgerAnchor): Promise<WriteOutcome>;
  /** Deletes whole segments that every cursor has passed and that are older than the retention. */
  retain(now: number): Promise<void>;
  /** The retention from the next {@link retain} on, milliseconds. */
  setRetention(retentionMs: number): void;
  /** Checks every stored byte of a range of sequence numbers. */
  verify(signal?: AbortSignal): Promise<VerifyReport>;
  stats(): LedgerStats;
  /** Waits for the write under way and releases the directory. */
  close(): Promise<void>;
}

/** What a cursor's move depends on, and what is written with it. */
export interface CursorCommit {
  /**
   * The position that was read from: nothing is written and the outcome is `retryable` when the
   * cursor no longer stands there, so that an operator's move is not undone by what was in flight;
   * read the cursor again. `none`: there was no cursor.
   */
  readonly from?: number | 'none';
  /** Changed together with the cursor; also when the cursor stands at the position already. */
  readonly records?: readonly RecordChange[];
}

/** A position of a ledger, kept outside of it: in the status of the MeteringPolicy. */
export interface LedgerAnchor {
  readonly ledgerId: string;
  /** The newest event by then. */
  readonly sequence: number;
  /** The chain value at it, hex. */
  readonly chain: string;
}

/** One batch to append. Repeats of an id, inside the batch or of a stored event, are dropped: first write wins. */
export interface AppendBatch {
  readonly events: readonly UsageEvent[];
  /** Changed in the same durable unit as the events. */
  readonly records?: readonly RecordChange[];
  /** Set by the collector: the end of the window that this batch closes, in milliseconds. */
  readonly windowEnd?: number;
}

/** A record to set (`value` present) or to delete (`value` undefined). */
export interface RecordChange {
  readonly key: string;
  readonly value: string | undefined;
}

/** What became of each event of a batch, by its index. */
export type EventOutcome = 'accepted' | 'duplicate' | 'conflict';

/**
 * `outcomes[i]` belongs to `events[i]`: `duplicate` has the same id, quantity and identity as a
 * stored event, `conflict` the same id and another quantity or identity (it is not stored; it is
 * counted and logged).
 */
export type AppendOutcome =
  | { readonly kind: 'appended'; readonly outcomes: readonly EventOutcome[]; readonly head: number }
  | LedgerFailure;

export type WriteOutcome = { readonly kind: 'written' } | LedgerFailure;

/**
 * `retryable`: nothing is acknowledged, try again. `full`: no room on the volume; retry later.
 * `fenced`: another writer owns the ledger; stop. `corrupt`: stored bytes are damaged; stop and tell.
 * `invalid`: the call itself is wrong (a cursor beyond the newest event); repeating it is useless.
 */
export interface LedgerFailure {
  readonly kind: 'failed';
  readonly cause: 'retryable' | 'full' | 'fenced' | 'corrupt' | 'invalid';
  /** `what: where: "input"`, fit for a log line. */
  readonly message: string;
}

/** What came of opening a ledger. `epoch`: by which a database tells its leaders apart, where it is one. */
export type OpenLedgerOutcome =
  | {
      readonly kind: 'opened';
      readonly ledger: Ledger;
      readonly rollups: Rollups;
      readonly epoch?: number;
    }
  | LedgerFailure;

/** Thrown by iterations over the ledger, which have no other way to say why they end early. */
export class LedgerReadError extends Error {
  readonly failure: LedgerFailure;

  constructor(failure: LedgerFailure) {
    super(failure.message);
    this.name = 'LedgerReadError';
    this.failure = failure;
  }
}

export interface StoredEvent {
  readonly sequence: number;
  readonly event: UsageEvent;
}

export type ReadOutcome =
  | {
      readonly kind: 'page';
      readonly events: readonly StoredEvent[];
      readonly lastSequence: number;
    }
  | LedgerFailure;

export interface Cursor {
  readonly destination: string;
  /** Every event up to and including this number is delivered, or parked for a stated reason. */
  readonly sequence: number;
  /** End of the window of the event at the cursor, RFC 3339; absent before the first event. */
  readonly windowEnd?: string;
  /** Milliseconds since the epoch; absent while the destination is in use. */
  readonly retiredAt?: number;
}

export interface VerifyReport {
  readonly ok: boolean;
  readonly records: number;
  readonly segments: number;
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** Hash of the chain at the last event, hex. */
  readonly chain: string;
  /** The first 20 problems, each naming the segment and the sequence number. */
  readonly errors: readonly string[];
}

export interface LedgerStats {
  /** Tells this ledger from every other one; never changes. */
  readonly ledgerId: string;
  readonly sequence: number;
  readonly bytes: number;
  readonly segments: number;
  readonly chain: string;
  /** Last closed window, milliseconds since the epoch; absent before the first. */
  readonly lastWindowEnd?: number;
  /** Append time when the oldest stored segment was opened, milliseconds since the epoch. */
  readonly oldestAt?: number;
  /** RETENTION in force, milliseconds; absent where nothing is ever deleted. */
  readonly retentionMs?: number;
  /** A synchronous standby is asked for and there is none, so that nothing is acknowledged; absent where none is asked for. */
  readonly standbyMissing?: boolean;
  /** Events that had the id of a stored event and another quantity or identity, since start. */
  readonly conflicts: number;
  /**
   * Events whose window ended at or before this time may have been deleted: a repeat of them would
   * not be recognised and must be refused. Milliseconds since the epoch; 0 while nothing is deleted.
   */
  readonly horizon: number;
  /** Damage and missing ranges found so far, in words, at most 20; empty is healthy. */
  readonly problems: readonly string[];
  /** What the ledger takes and what is free beside it; absent where that has no meaning. See `volumeNeeded`. */
  readonly roomBytes?: number;
  /** `normal` → `warn` (75 %) → `ingest-refused` (85 %) → `collector-paused` (95 %). */
  readonly disk: {
    readonly level: DiskLevel;
    readonly usedRatio: number;
    readonly retentionShortened: boolean;
  };
}

export type DiskLevel = 'normal' | 'warn' | 'ingest-refused' | 'collector-paused';
