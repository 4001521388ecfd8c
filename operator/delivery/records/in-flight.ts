import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from './delivery-records.ts';

/**
 * Share of the destination's documented id memory after which an id counts as forgotten. The wall
 * clock is the only clock that outlives the process, and it may be set back by hours. A query costs
 * little.
 */
const TRUSTED_SHARE = 0.5;

/** Returns whether the destination may have forgotten an id that it received at a time. */
export function isForgotten(at: number, now: number, idMemoryMs: number): boolean {
  const age = now - at;
  return age < 0 || age >= idMemoryMs * TRUSTED_SHARE;
}

const WRITTEN: WriteOutcome = { kind: 'written' };

/**
 * Remembers durably when an event was first sent without a known outcome
 * (docs/explanation/delivery.md#memory-of-ids).
 *
 * 1. The destination forgets ids: the record is written before the event is sent. Once the attempt
 *    is older than that memory, the destination is queried first. Sent again blindly, the event
 *    could be billed twice.
 * 2. It does not forget: the record is written after an attempt without an answer.
 */
export class InFlight {
  readonly #ledger: Ledger;
  readonly #records: DeliveryRecords;
  readonly #clock: Clock;
  readonly #idMemoryMs: number | undefined;
  readonly #firstAttempts = new Map<number, number>();
  /** The sequence numbers of `#firstAttempts` that are on record. */
  readonly #recorded = new Set<number>();
  #resentUntil = 0;
  /** Events that were queried since they were sent, or since the cursor was rewound behind them. */
  readonly #queried = new Set<number>();

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
    this.#queried.clear();
    for (const [sequence, at] of (await this.#records.inFlight()) ?? []) {
      this.#firstAttempts.set(sequence, at);
      this.#recorded.add(sequence);
    }
  }

  /** Start of the first attempt with an unknown outcome, milliseconds since the epoch. */
  unansweredSince({ sequence, unansweredSince }: QueuedEvent): number | undefined {
    const stored = this.#queried.has(sequence) ? undefined : unansweredSince;
    return this.#firstAttempts.get(sequence) ?? stored;
  }

  /** Returns the events that the destination may have received and forgotten. */
  overdue<T extends QueuedEvent>(queued: readonly T[]): readonly T[] {
    return queued.filter((one) => this.#isOverdue(one));
  }

  /** Returns events that a forgetful destination may have from an attempt without an answer. */
  mayHave(queued: readonly QueuedEvent[]): readonly QueuedEvent[] {
    if (this.#idMemoryMs === undefined) return [];
    return queued.filter((one) => this.unansweredSince(one) !== undefined || this.#isOverdue(one));
  }

  /** Whether an operator forces an event with unknown outcome. False after a newer attempt. */
  isForced({ sequence, forced, unansweredSince }: QueuedEvent): boolean {
    const at = this.#firstAttempts.get(sequence);
    return forced === true && (at === undefined || at === unansweredSince);
  }

  /** Notes the start of an attempt. Must succeed before the events are sent. */
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

  /** Records events that were sent without an answer. */
  async unanswered(queued: readonly QueuedEvent[]): Promise<void> {
    if (queued.every(({ sequence }) => this.#recorded.has(sequence))) return;
    const unanswered = new Set(queued.map(({ sequence }) => sequence));
    // A failed write is made up for after the next attempt.
    await this.#record(
      [...this.#firstAttempts].filter(
        ([sequence]) => unanswered.has(sequence) || this.#recorded.has(sequence),
      ),
    );
  }

  /** Forgets earlier attempts: the destination lacks these events, or they are sent in any case. */
  restart(queued: readonly QueuedEvent[]): void {
    for (const { sequence } of queued) {
      this.#firstAttempts.delete(sequence);
      this.#queried.add(sequence);
    }
  }

  /** Returns the record without these. Write it in the transaction that settles the events. */
  without(sequences: readonly number[]): readonly RecordChange[] {
    if (!sequences.some((sequence) => this.#recorded.has(sequence))) return [];
    const gone = new Set(sequences);
    const left = [...this.#firstAttempts].filter(
      ([sequence]) => this.#recorded.has(sequence) && !gone.has(sequence),
    );
    return [this.#records.putInFlight(left)];
  }

  /** Call after the records of {@link InFlight.without} were written. */
  forget(sequences: readonly number[]): void {
    for (const sequence of sequences) {
      this.#firstAttempts.delete(sequence);
      this.#recorded.delete(sequence);
      this.#queried.delete(sequence);
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
    if (sequence <= this.#resentUntil && !this.#queried.has(sequence)) return true;
    const at = this.unansweredSince(one);
    return at !== undefined && isForgotten(at, this.#clock.now(), this.#idMemoryMs);
  }
}
