import type { UsageEvent } from '../model/event.ts';
import type { Rollups } from './rollups.ts';

/**
 * The ledger: a durable, ordered, deduplicated sequence of usage events with one cursor per
 * destination. Code above this interface does not know the storage.
 * docs/reference/ledger-format.md#promises states its guarantees; `testing/conformance.ts` tests
 * them on every implementation.
 */
export interface Ledger {
  /**
   * Appends events and records as one durable unit. After `appended` they survive a power cut;
   * after any other outcome none of them is stored.
   */
  append(batch: AppendBatch): Promise<AppendOutcome>;
  /** Up to `limit` events after a sequence number, in order. An empty page is the end. */
  read(afterSequence: number, limit: number): Promise<ReadOutcome>;
  /**
   * Events whose window starts in `[from, to)`, in ledger order; for export and sums. Throws a
   * {@link LedgerReadError} at damaged bytes, so that no sum is silently too small.
   */
  scan(from: number, to: number, signal?: AbortSignal): AsyncIterable<StoredEvent>;
  /**
   * The batches from the one with event `sequence` on, up to the head, for proofs of the chain
   * (docs/reference/ledger-format.md#the-chain). Throws a {@link LedgerReadError} at damaged bytes.
   */
  batches(sequence: number, signal?: AbortSignal): AsyncIterable<LedgerBatch>;
  /**
   * The event with an id; undefined if it was never stored or is deleted. Rejects with a {@link
   * LedgerReadError} at damaged bytes.
   */
  find(id: string): Promise<UsageEvent | undefined>;
  /** The sequence number of the newest event; 0 if there is none. */
  head(): number;
  /** The sequence number before the oldest event that is still stored. */
  lowWater(): number;
  /** Resolves when the head has passed `afterSequence`; rejects with the signal's reason. */
  changed(afterSequence: number, signal: AbortSignal): Promise<void>;

  /** The cursors of all destinations, retired ones included. */
  cursors(): readonly Cursor[];
  /**
   * Durably moves a destination's cursor forward, never back, and creates it if there is none.
   * Changes records in the same durable unit: the write that passes an undelivered event also
   * stores why.
   */
  commitCursor(destination: string, sequence: number, commit?: CursorCommit): Promise<WriteOutcome>;
  /** Durably sets a cursor to any position. Only for operators: destinations may bill twice. */
  moveCursor(destination: string, sequence: number): Promise<WriteOutcome>;
  /**
   * Marks a cursor as retired at `at`: it delays deletion only until `at` + retention
   * (docs/reference/ledger-format.md#deletion). A later commit makes it active again.
   */
  retireCursor(destination: string, at: number): Promise<WriteOutcome>;
  /** Deletes a cursor. */
  dropCursor(destination: string): Promise<WriteOutcome>;

  /** Reads a small record beside the events: journal, gaps, tenant ids, dead letters, states. */
  record(key: string): Promise<string | undefined>;
  /** All records whose key begins with `prefix`, in key order. */
  records(prefix: string): AsyncIterable<readonly [key: string, value: string]>;
  /** Durably changes records without appending an event. */
  writeRecords(changes: readonly RecordChange[]): Promise<WriteOutcome>;

  /**
   * Compares the ledger with an anchor stored outside of it, before anything is appended. Ignores
   * the anchor of another ledger. Reports a problem if the newest events are missing or differ, and
   * never uses the sequence numbers up to the anchor's again
   * (docs/reference/ledger-format.md#a-head-that-went-back).
   */
  compareWith(anchor: LedgerAnchor): Promise<WriteOutcome>;
  /** Deletes complete segments older than the retention that every cursor has passed. */
  retain(now: number): Promise<void>;
  /** Sets the retention for the next {@link retain}, milliseconds. */
  setRetention(retentionMs: number): void;
  /** Checks every stored event, id, record and cursor. */
  verify(signal?: AbortSignal): Promise<VerifyReport>;
  stats(): LedgerStats;
  /** Waits for the current write and releases the storage. */
  close(): Promise<void>;
}

/** Precondition of a cursor's move, and the records written with it. */
export interface CursorCommit {
  /**
   * The position that the reader started from; `none` if there was no cursor. If the cursor is
   * elsewhere, nothing is written and the outcome is `retryable`: read the cursor again. So a
   * delivery in progress cannot undo an operator's move.
   */
  readonly from?: number | 'none';
  /** Records to change with the cursor, even if the cursor already is at the position. */
  readonly records?: readonly RecordChange[];
}

/** A position of a ledger, stored outside of it in the status of the MeteringPolicy. */
export interface LedgerAnchor {
  readonly ledgerId: string;
  /** Sequence number of the newest event at that time. */
  readonly sequence: number;
  /** The chain value at that event, hex. */
  readonly chain: string;
}

/** One batch to append. An event with the id of an earlier one, stored or here, is dropped. */
export interface AppendBatch {
  readonly events: readonly UsageEvent[];
  /** Records to change in the same durable unit. */
  readonly records?: readonly RecordChange[];
  /** The end of the window that this batch closes, milliseconds; only the collector sets it. */
  readonly windowEnd?: number;
}

/** A record to set (`value` present) or to delete (`value` undefined). */
export interface RecordChange {
  readonly key: string;
  readonly value: string | undefined;
}

/** Outcome of one event of a batch. */
export type EventOutcome = 'accepted' | 'duplicate' | 'conflict';

/**
 * `outcomes[i]` belongs to `events[i]`. `duplicate`: a stored event has the same id, quantity and
 * identity. `conflict`: a stored event has the same id and another quantity or identity; the new
 * one is not stored, but counted and logged.
 */
export type AppendOutcome =
  | { readonly kind: 'appended'; readonly outcomes: readonly EventOutcome[]; readonly head: number }
  | LedgerFailure;

export type WriteOutcome = { readonly kind: 'written' } | LedgerFailure;

/** Where a part of the operator stores what must survive a restart. */
export type RecordStore = Pick<Ledger, 'records' | 'writeRecords'>;

/**
 * A failed call, by cause:
 * - `retryable`: nothing is acknowledged; try again.
 * - `full`: the volume is full; try again later.
 * - `fenced`: another process writes the ledger; stop.
 * - `corrupt`: stored bytes are damaged; stop and report it.
 * - `invalid`: the call is wrong, such as a cursor beyond the newest event; a retry is useless.
 */
export interface LedgerFailure {
  readonly kind: 'failed';
  readonly cause: 'retryable' | 'full' | 'fenced' | 'corrupt' | 'invalid';
  /** `what: where: "input"`, one line for a log. */
  readonly message: string;
}

/** Outcome of opening a ledger. `epoch` numbers the leaders of a stream in a database. */
export type OpenLedgerOutcome =
  | {
      readonly kind: 'opened';
      readonly ledger: Ledger;
      readonly rollups: Rollups;
      readonly epoch?: number;
    }
  | LedgerFailure;

/** Thrown by iterations and reads of the ledger, with the failure that ended them. */
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

/** Events that were appended together, with their place in the chain. Hashes are hex. */
export interface LedgerBatch {
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** The chain value before the batch. */
  readonly previous: string;
  /** The chain value at its last event. */
  readonly chain: string;
  /** The root of its tree; absent before the link (docs/reference/ledger-format.md#the-link). */
  readonly root?: string;
  /** Reads its events, with the texts that the chain covers. Rejects at damaged bytes. */
  readonly texts: () => Promise<readonly StoredText[]>;
}

/** An event's exact stored text. */
export interface StoredText {
  readonly sequence: number;
  readonly tenant: string;
  readonly text: string;
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
  /** Every event up to this number, included, is delivered or stored with a reason why not. */
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
  /** The first 20 problems, with the segment and the sequence number of each. */
  readonly errors: readonly string[];
}

export interface LedgerStats {
  /** Unique id of this ledger; never changes. */
  readonly ledgerId: string;
  readonly sequence: number;
  readonly bytes: number;
  readonly segments: number;
  readonly chain: string;
  /** End of the last closed window, milliseconds since the epoch; absent before the first. */
  readonly lastWindowEnd?: number;
  /** When the oldest stored segment began, milliseconds since the epoch. */
  readonly oldestAt?: number;
  /** RETENTION in force, milliseconds; absent if nothing is ever deleted. */
  readonly retentionMs?: number;
  /**
   * True while a required synchronous standby is missing, so that nothing is acknowledged; absent
   * if none is required.
   */
  readonly standbyMissing?: boolean;
  /** Number of events since start with a stored event's id and another quantity or identity. */
  readonly conflicts: number;
  /**
   * Events whose window ended at or before this time may have been deleted. Repeats of them cannot
   * be recognized and must be refused. Milliseconds since the epoch; 0 while nothing is deleted.
   */
  readonly horizon: number;
  /** Damage and missing ranges found so far, at most 20 texts; empty when the ledger is healthy. */
  readonly problems: readonly string[];
  /** The ledger's bytes plus free bytes of the volume; absent without one. See `volumeNeeded`. */
  readonly roomBytes?: number;
  /** `normal` → `warn` (75 %) → `ingest-refused` (85 %) → `collector-paused` (95 %). */
  readonly disk: {
    readonly level: DiskLevel;
    readonly usedRatio: number;
    readonly retentionShortened: boolean;
  };
}

export type DiskLevel = 'normal' | 'warn' | 'ingest-refused' | 'collector-paused';
