import type { Ledger, LedgerFailure, RecordChange } from '../../ledger/ledger.ts';
import { isLateNote } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { HourRead, HourReader } from '../aggregation/hour-reader.ts';
import type { AggregatedRanges } from '../aggregation/ranges.ts';
import {
  type BlockReason,
  type DeliveryResult,
  partsOf,
  type QueuedEvent,
  type SettledEvent,
} from '../delivery-result.ts';
import type { AggregatedRange } from '../records/aggregated-range.ts';
import { createSequenceSet, type SequenceSet } from '../records/sequence-sets.ts';

interface PendingEvent extends QueuedEvent {
  /** As the destination encodes it, which is not done twice to tell. */
  bytes?: number;
  result?: DeliveryResult;
}

/**
 * The events between the cursor and what was read: the cursor passes an event only when its result is
 * in, and the records that the result asks for are part of the same durable write
 * (docs/ledger-format.md#promises, P5).
 */
export interface Pending {
  /** Where the cursor stands. */
  position(): number;
  reset(position: number): void;
  isEmpty(): boolean;
  first(): QueuedEvent | undefined;
  /** Whether what is pending are the sums of an hour, which take many calls. */
  isHour(): boolean;
  /** Reads on; does nothing while something is pending. */
  read(limits: ReadLimits, signal: AbortSignal): Promise<BlockReason | undefined>;
  /** The first events without a result, in order, as many as one call takes. */
  open(): readonly QueuedEvent[];
  settle(results: ReadonlyMap<number, DeliveryResult>): void;
  /** Whether it was delivered, and that is not on record yet. */
  isDelivered(sequence: number): boolean;
  /** Whether what became of it is on record, the cursor not having passed it yet: it is part of an hour. */
  isDone(sequence: number): boolean;
  /** Whether a tenant's events are to be set aside, and that is not on record yet. */
  isParking(tenant: string): boolean;
  /** Whether what became of it is on record. */
  hasPassed(sequence: number): boolean;
  /** Moves the cursor over what is settled at the front. */
  commit(
    recordsOf: (passed: readonly SettledEvent[]) => readonly RecordChange[],
  ): Promise<CommitReport>;
}

export interface ReadLimits {
  readonly events: number;
  readonly bytes?: number;
  readonly bytesOf?: (event: UsageEvent) => number;
  readonly wants: (event: UsageEvent) => boolean;
}

export type CommitReport =
  | {
      readonly kind: 'committed';
      readonly passed: readonly SettledEvent[];
      /** Events passed that are not listed, since the destination does not want them. */
      readonly skipped: number;
    }
  | LedgerFailure;

const SKIPPED: DeliveryResult = { kind: 'skipped' };

export interface PendingOptions {
  readonly ledger: Ledger;
  readonly cursorName: string;
  readonly hours: Pick<HourReader, 'read'>;
  readonly ranges: Pick<AggregatedRanges, 'progressOf' | 'progressed'>;
}

export function createPending(options: PendingOptions): Pending {
  return new LedgerPending(options);
}

/** An hour's sums that are being sent, which the cursor passes as a whole. */
interface Hour {
  range: AggregatedRange;
  skipped: number;
}

class LedgerPending implements Pending {
  readonly #options: PendingOptions;
  #events: PendingEvent[] = [];
  #position = 0;
  #limits: ReadLimits | undefined;
  #hour: Hour | undefined;
  /** Of the hour, what is settled on record. */
  #done: SequenceSet = createSequenceSet();

  constructor(options: PendingOptions) {
    this.#options = options;
  }

  position(): number {
    return this.#position;
  }

  reset(position: number): void {
    this.#events = [];
    this.#position = position;
    this.#endHour();
  }

  isEmpty(): boolean {
    return this.#events.length === 0;
  }

  first(): QueuedEvent | undefined {
    return this.#events[0];
  }

  isHour(): boolean {
    return this.#hour !== undefined;
  }

  async read(limits: ReadLimits, signal: AbortSignal): Promise<BlockReason | undefined> {
    if (this.#events.length > 0) return undefined;
    this.#limits = limits;
    const { hours } = this.#options;
    const read = await hours.read(this.#position, limits.wants, signal);
    if (read.kind === 'waiting') return undefined;
    if (read.kind === 'blocked') return read.reason;
    if (read.kind === 'failed') return retryOf(read);
    return read.kind === 'range' ? this.#beginHour(read) : this.#readPlain(limits, read.until);
  }

  async #readPlain(
    { events, bytes, bytesOf, wants }: ReadLimits,
    until = Number.POSITIVE_INFINITY,
  ): Promise<BlockReason | undefined> {
    const limit = Math.min(events, until - this.#position);
    const page = await this.#options.ledger.read(this.#position, limit);
    if (page.kind === 'failed') return retryOf(page);
    if (page.events.length === 0) return this.#passTo(Math.min(page.lastSequence, until));
    let size = 0;
    for (const { sequence, event } of page.events) {
      if (sequence > until) break;
      // How an event was billed concerns no destination.
      if (isLateNote(event) || !wants(event)) {
        this.#events.push({ sequence, event, result: SKIPPED });
        continue;
      }
      const own = bytesOf?.(event) ?? 0;
      size += own;
      const fits = bytes === undefined || size <= bytes || this.#events.every(isSettled);
      if (!fits) break;
      this.#events.push({ sequence, event, bytes: own });
    }
    // The numbers up to there are lost.
    return this.#events.length === 0 ? this.#passTo(until) : undefined;
  }

  /** What was settled before a restart is not sent again. */
  async #beginHour({
    range,
    sums,
    skipped,
    torn,
  }: Extract<HourRead, { readonly kind: 'range' }>): Promise<BlockReason | undefined> {
    const { doneTo = 0 } = range;
    this.#events = sums
      .filter(({ sequence }) => sequence > doneTo)
      .map((sum) => ({ ...sum, ...omitUndefined({ result: torn?.get(sum.sequence) }) }));
    if (this.#events.length === 0) return this.#passTo(range.to);
    for (const sum of sums) if (sum.sequence <= doneTo) this.#note(sum);
    this.#hour = { range, skipped };
    return undefined;
  }

  open(): readonly QueuedEvent[] {
    const { events = 0, bytes, bytesOf } = this.#limits ?? {};
    const open: QueuedEvent[] = [];
    let size = 0;
    for (const pending of this.#events) {
      if (isSettled(pending)) continue;
      pending.bytes ??= bytesOf?.(pending.event) ?? 0;
      size += pending.bytes;
      const fits = bytes === undefined || size <= bytes || open.length === 0;
      if (open.length >= events || !fits) break;
      open.push(pending);
    }
    return open;
  }

  settle(results: ReadonlyMap<number, DeliveryResult>): void {
    for (const pending of this.#events) {
      const result = results.get(pending.sequence);
      if (result !== undefined) pending.result = result;
    }
  }

  isDelivered(sequence: number): boolean {
    return this.#events.some(
      (pending) => pending.result?.kind === 'delivered' && partsOf(pending).includes(sequence),
    );
  }

  isDone(sequence: number): boolean {
    return this.#done.has(sequence);
  }

  isParking(tenant: string): boolean {
    return this.#events.some(
      ({ event, result }) => result?.kind === 'parked' && event.tenant === tenant,
    );
  }

  hasPassed(sequence: number): boolean {
    return sequence <= this.#position || this.isDone(sequence);
  }

  async commit(
    recordsOf: (passed: readonly SettledEvent[]) => readonly RecordChange[],
  ): Promise<CommitReport> {
    const passed = settledFront(this.#events);
    const last = passed.at(-1);
    if (last === undefined) return { kind: 'committed', passed, skipped: 0 };
    const hour = this.#hour;
    const isWhole = hour === undefined || passed.length === this.#events.length;
    const outcome = isWhole
      ? await this.#move(hour?.range.to ?? last.sequence, recordsOf(passed))
      : await this.#progress(hour, last.sequence, recordsOf(passed));
    if (outcome !== undefined) return outcome;
    this.#events = this.#events.slice(passed.length);
    if (!isWhole) {
      for (const settled of passed) this.#note(settled);
      return { kind: 'committed', passed, skipped: 0 };
    }
    this.#endHour();
    return { kind: 'committed', passed, skipped: hour?.skipped ?? 0 };
  }

  async #move(to: number, records: readonly RecordChange[]): Promise<LedgerFailure | undefined> {
    const { ledger, cursorName, ranges } = this.#options;
    const range = this.#hour?.range;
    // Sums that are read once more, after the cursor was put back, are all to be sent.
    const ended = range === undefined ? [] : [ranges.progressOf(range, undefined)];
    const commit = { from: this.#position, records: [...records, ...ended] };
    const outcome = await ledger.commitCursor(cursorName, to, commit);
    if (outcome.kind === 'failed') return outcome;
    if (range !== undefined) ranges.progressed(range, undefined);
    this.#position = to;
    return undefined;
  }

  async #progress(
    hour: Hour,
    doneTo: number,
    records: readonly RecordChange[],
  ): Promise<LedgerFailure | undefined> {
    const { ledger, ranges } = this.#options;
    const progress = ranges.progressOf(hour.range, doneTo);
    const outcome = await ledger.writeRecords([...records, progress]);
    if (outcome.kind === 'failed') return outcome;
    hour.range = ranges.progressed(hour.range, doneTo);
    return undefined;
  }

  #note(settled: QueuedEvent): void {
    for (const part of partsOf(settled)) this.#done.add(part);
  }

  #endHour(): void {
    this.#hour = undefined;
    this.#done = createSequenceSet();
  }

  /**
   * Moves the cursor over what nobody gets, such as numbers that the ledger has given and lost: the ledger
   * reports these itself, and a reader that stayed before them would be woken for ever.
   */
  async #passTo(sequence: number): Promise<BlockReason | undefined> {
    if (sequence <= this.#position || !Number.isFinite(sequence)) return undefined;
    const failed = await this.#move(sequence, []);
    return failed && retryOf(failed);
  }
}

function retryOf({ message: reason }: LedgerFailure): BlockReason {
  return { kind: 'retry', reason };
}

function isSettled(pending: PendingEvent): pending is PendingEvent & SettledEvent {
  return pending.result !== undefined;
}

function settledFront(events: readonly PendingEvent[]): SettledEvent[] {
  const passed: SettledEvent[] = [];
  for (const pending of events) {
    if (!isSettled(pending)) break;
    passed.push(pending);
  }
  return passed;
}
