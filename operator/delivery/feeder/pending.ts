import type { ByteLimit } from '../../destinations/destination.ts';
import type { Ledger, LedgerFailure, RecordChange } from '../../ledger/ledger.ts';
import { isLateNote } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { BlockReason, DeliveryResult, QueuedEvent, SettledEvent } from '../delivery-result.ts';

interface PendingEvent extends QueuedEvent {
  result?: DeliveryResult;
}

export interface ReadLimits {
  readonly events: number;
  readonly bytes?: ByteLimit;
  readonly wants: (event: UsageEvent) => boolean;
}

export type CommitReport =
  | { readonly kind: 'committed'; readonly passed: readonly SettledEvent[] }
  | LedgerFailure;

const SKIPPED: DeliveryResult = { kind: 'skipped' };

/**
 * The events that were read and that the cursor has not passed. The cursor passes an event only
 * after it has a result. The same durable write contains the records of the result
 * (docs/reference/ledger-format.md#promises, P5).
 */
export class Pending {
  readonly #ledger: Ledger;
  readonly #cursorName: string;
  #events: PendingEvent[] = [];
  #position = 0;

  constructor(ledger: Ledger, cursorName: string) {
    this.#ledger = ledger;
    this.#cursorName = cursorName;
  }

  /** Returns the sequence number of the cursor. */
  position(): number {
    return this.#position;
  }

  reset(position: number): void {
    this.#events = [];
    this.#position = position;
  }

  isEmpty(): boolean {
    return this.#events.length === 0;
  }

  first(): QueuedEvent | undefined {
    return this.#events[0];
  }

  /** Reads the next events, as many as one call takes; does nothing while some are pending. */
  async read({ events, bytes, wants }: ReadLimits): Promise<BlockReason | undefined> {
    if (this.#events.length > 0) return undefined;
    const page = await this.#ledger.read(this.#position, events);
    if (page.kind === 'failed') return retryOf(page);
    if (page.events.length === 0) return this.#passTo(page.lastSequence);
    let size = 0;
    for (const { sequence, event } of page.events) {
      // Notes about billed late usage are not sent to destinations.
      if (isLateNote(event) || !wants(event)) {
        this.#events.push({ sequence, event, result: SKIPPED });
        continue;
      }
      size += bytes?.sizeOf(event) ?? 0;
      const fits = bytes === undefined || size <= bytes.most || this.#events.every(isSettled);
      if (!fits) break;
      this.#events.push({ sequence, event });
    }
    return undefined;
  }

  /** Returns the events without a result, in order. One call takes them all. */
  open(): readonly QueuedEvent[] {
    return this.#events.filter((pending) => !isSettled(pending));
  }

  settle(results: ReadonlyMap<number, DeliveryResult>): void {
    for (const pending of this.#events) {
      const result = results.get(pending.sequence);
      if (result !== undefined) pending.result = result;
    }
  }

  /** Returns whether an event was delivered and this is not on record yet. */
  isDelivered(sequence: number): boolean {
    return this.#events.some(
      (pending) => pending.result?.kind === 'delivered' && pending.sequence === sequence,
    );
  }

  /** Returns whether events of a tenant are parked and this is not on record yet. */
  isParking(tenant: string): boolean {
    return this.#events.some(
      ({ event, result }) => result?.kind === 'parked' && event.tenant === tenant,
    );
  }

  /** Returns whether the outcome of an event is on record. */
  hasPassed(sequence: number): boolean {
    return sequence <= this.#position;
  }

  /** Moves the cursor over the settled events at the front. */
  async commit(
    recordsOf: (passed: readonly SettledEvent[]) => readonly RecordChange[],
  ): Promise<CommitReport> {
    const passed = settledFront(this.#events);
    const last = passed.at(-1);
    if (last === undefined) return { kind: 'committed', passed };
    const outcome = await this.#move(last.sequence, recordsOf(passed));
    if (outcome !== undefined) return outcome;
    this.#events = this.#events.slice(passed.length);
    return { kind: 'committed', passed };
  }

  async #move(to: number, records: readonly RecordChange[]): Promise<LedgerFailure | undefined> {
    const commit = { from: this.#position, records };
    const outcome = await this.#ledger.commitCursor(this.#cursorName, to, commit);
    if (outcome.kind === 'failed') return outcome;
    this.#position = to;
    return undefined;
  }

  /**
   * Moves the cursor over sequence numbers without an event, such as numbers that the ledger has
   * lost. The ledger reports these itself. A reader that stayed in front of them would be woken
   * without end.
   */
  async #passTo(sequence: number): Promise<BlockReason | undefined> {
    if (sequence <= this.#position) return undefined;
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
