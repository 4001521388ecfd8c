import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from './delivery-records.ts';

/**
 * An id is taken to be forgotten after this share of the time for which the other side says that it
 * remembers it. Asking costs little; and the wall clock, the only one that outlives the process, may
 * have been set back by hours meanwhile.
 */
const TRUSTED_SHARE = 0.5;

/** Whether the other side may have forgotten by now what it was sent at a time, by how long it remembers ids. */
export function isForgotten(at: number, now: number, idMemoryMs: number): boolean {
  const age = now - at;
  return age < 0 || age >= idMemoryMs * TRUSTED_SHARE;
}

const WRITTEN: WriteOutcome = { kind: 'written' };

/**
 * Remembers durably when an event was first sent without its outcome being known (docs/explanation/delivery.md#memory-of-ids). Where the destination
 * forgets ids, such an event must be asked after once it is older than that memory, never sent blindly: it may be there already and would be
 * billed twice. There it is on record before it is sent; elsewhere once its attempt has had no answer.
 */
export class InFlight {
  readonly #ledger: Ledger;
  readonly #records: DeliveryRecords;
  readonly #clock: Clock;
  readonly #idMemoryMs: number | undefined;
  readonly #firstAttempts = new Map<number, number>();
  /** Of these, which are on record. */
  readonly #recorded = new Set<number>();
  #resentUntil = 0;
  /** Asked after since they were sent, or since the cursor was put back behind them. */
  readonly #requestedAfter = new Set<number>();

  constructor(
    ledger: Ledger,
    records: DeliveryRecords,
    clock: Clock,
    idMemoryMs: number | undefined,
  ) {
    this.#ledger = ledger;
    this.#records = records;
    this.#clock = clock;
    this.#idMemoryMs = idMemoryMs;
  }

  async load(until: number | undefined): Promise<void> {
    this.#resentUntil = until ?? 0;
    this.#requestedAfter.clear();
    for (const [sequence, at] of (await this.#records.inFlight()) ?? []) {
      this.#firstAttempts.set(sequence, at);
      this.#recorded.add(sequence);
    }
  }

  /** When the first attempt of which nobody knows what became of it began, milliseconds since the epoch. */
  unansweredSince({ sequence, unansweredSince }: QueuedEvent): number | undefined {
    const stored = this.#requestedAfter.has(sequence) ? undefined : unansweredSince;
    return this.#firstAttempts.get(sequence) ?? stored;
  }

  /** Those that the other side may have had and forgotten. */
  overdue<T extends QueuedEvent>(queued: readonly T[]): readonly T[] {
    return queued.filter((one) => this.#isOverdue(one));
  }

  /** Those that a destination which forgets was sent before, as far as is known, without an answer for good. */
  mayHave(queued: readonly QueuedEvent[]): readonly QueuedEvent[] {
    if (this.#idMemoryMs === undefined) return [];
    return queued.filter((one) => this.unansweredSince(one) !== undefined || this.#isOverdue(one));
  }

  /** Whether an operator wants it sent though nobody can tell whether it is there. It was not since. */
  isForced({ sequence, forced, unansweredSince }: QueuedEvent): boolean {
    const at = this.#firstAttempts.get(sequence);
    return forced === true && (at === undefined || at === unansweredSince);
  }

  /** Must succeed before the events are sent. */
  async begin(queued: readonly QueuedEvent[]): Promise<WriteOutcome> {
    const now = this.#clock.now();
    const added = queued
      .filter(({ sequence }) => !this.#firstAttempts.has(sequence))
      .map((one) => [one.sequence, this.unansweredSince(one) ?? now] as const);
    if (added.length === 0) return WRITTEN;
    if (this.#idMemoryMs !== undefined) {
      const outcome = await this.#record([...this.#firstAttempts, ...added]);
      if (outcome.kind === 'failed') return outcome;
    }
    for (const [sequence, at] of added) this.#firstAttempts.set(sequence, at);
    return WRITTEN;
  }

  /** They were sent, and nobody knows what became of them. */
  async unanswered(queued: readonly QueuedEvent[]): Promise<void> {
    if (queued.every(({ sequence }) => this.#recorded.has(sequence))) return;
    const meant = new Set(queued.map(({ sequence }) => sequence));
    // What is not written now is written after the next attempt.
    await this.#record(
      [...this.#firstAttempts].filter(
        ([sequence]) => meant.has(sequence) || this.#recorded.has(sequence),
      ),
    );
  }

  /** The other side does not have these, or they are to be sent all the same: their time begins anew. */
  restart(queued: readonly QueuedEvent[]): void {
    for (const { sequence } of queued) {
      this.#firstAttempts.delete(sequence);
      this.#requestedAfter.add(sequence);
    }
  }

  /** The record without these, to be written with what settles them. */
  without(sequences: readonly number[]): readonly RecordChange[] {
    if (!sequences.some((sequence) => this.#recorded.has(sequence))) return [];
    const gone = new Set(sequences);
    const left = [...this.#firstAttempts].filter(
      ([sequence]) => this.#recorded.has(sequence) && !gone.has(sequence),
    );
    return [this.#records.putInFlight(left)];
  }

  /** After that was written. */
  forget(sequences: readonly number[]): void {
    for (const sequence of sequences) {
      this.#firstAttempts.delete(sequence);
      this.#recorded.delete(sequence);
      this.#requestedAfter.delete(sequence);
    }
  }

  async #record(entries: readonly (readonly [number, number])[]): Promise<WriteOutcome> {
    const outcome = await this.#ledger.writeRecords([this.#records.putInFlight(entries)]);
    if (outcome.kind === 'written') for (const [sequence] of entries) this.#recorded.add(sequence);
    return outcome;
  }

  #isOverdue(one: QueuedEvent): boolean {
    const { sequence } = one;
    if (this.#idMemoryMs === undefined) return false;
    if (sequence <= this.#resentUntil && !this.#requestedAfter.has(sequence)) return true;
    const at = this.unansweredSince(one);
    return at !== undefined && isForgotten(at, this.#clock.now(), this.#idMemoryMs);
  }
}
