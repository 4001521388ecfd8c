import type { Ledger, LedgerFailure, RecordChange } from '../../ledger/ledger.ts';
import { isLateNote } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DeliveryResult, QueuedEvent, SettledEvent } from '../delivery-result.ts';

interface PendingEvent extends QueuedEvent {
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
  /** Reads on; does nothing while something is pending. */
  read(limits: ReadLimits): Promise<LedgerFailure | undefined>;
  /** Events without a result, in order. */
  open(): readonly QueuedEvent[];
  settle(results: ReadonlyMap<number, DeliveryResult>): void;
  /** Whether it was delivered, the cursor not having passed it yet. */
  isDelivered(sequence: number): boolean;
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
  | { readonly kind: 'committed'; readonly passed: readonly SettledEvent[] }
  | LedgerFailure;

const SKIPPED: DeliveryResult = { kind: 'skipped' };

export function createPending(ledger: Ledger, cursorName: string): Pending {
  return new LedgerPending(ledger, cursorName);
}

class LedgerPending implements Pending {
  readonly #ledger: Ledger;
  readonly #cursorName: string;
  #events: PendingEvent[] = [];
  #position = 0;

  constructor(ledger: Ledger, cursorName: string) {
    this.#ledger = ledger;
    this.#cursorName = cursorName;
  }

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

  async read({ events, bytes, bytesOf, wants }: ReadLimits): Promise<LedgerFailure | undefined> {
    if (this.#events.length > 0) return undefined;
    const page = await this.#ledger.read(this.#position, events);
    if (page.kind === 'failed') return page;
    if (page.events.length === 0) return this.#passMissing(page.lastSequence);
    let size = 0;
    for (const { sequence, event } of page.events) {
      // How an event was billed concerns no destination.
      if (isLateNote(event) || !wants(event)) {
        this.#events.push({ sequence, event, result: SKIPPED });
        continue;
      }
      size += bytesOf?.(event) ?? 0;
      const fits = bytes === undefined || size <= bytes || this.#events.every(isSettled);
      if (!fits) break;
      this.#events.push({ sequence, event });
    }
    return undefined;
  }

  open(): readonly QueuedEvent[] {
    return this.#events.filter((pending) => !isSettled(pending));
  }

  settle(results: ReadonlyMap<number, DeliveryResult>): void {
    for (const pending of this.#events) {
      const result = results.get(pending.sequence);
      if (result !== undefined) pending.result = result;
    }
  }

  isDelivered(sequence: number): boolean {
    return this.#events.some(
      (pending) => pending.sequence === sequence && pending.result?.kind === 'delivered',
    );
  }

  async commit(
    recordsOf: (passed: readonly SettledEvent[]) => readonly RecordChange[],
  ): Promise<CommitReport> {
    const passed = settledFront(this.#events);
    const last = passed.at(-1);
    if (last === undefined) return { kind: 'committed', passed };
    const outcome = await this.#ledger.commitCursor(this.#cursorName, last.sequence, {
      from: this.#position,
      records: recordsOf(passed),
    });
    if (outcome.kind === 'failed') return outcome;
    this.#events = this.#events.slice(passed.length);
    this.#position = last.sequence;
    return { kind: 'committed', passed };
  }

  /**
   * Moves the cursor over numbers that the ledger has given and lost, and has nothing after: the ledger
   * reports them itself, and a reader that stayed before them would be woken for ever.
   */
  async #passMissing(lastSequence: number): Promise<LedgerFailure | undefined> {
    const from = this.#position;
    if (lastSequence <= from) return undefined;
    const outcome = await this.#ledger.commitCursor(this.#cursorName, lastSequence, { from });
    if (outcome.kind === 'failed') return outcome;
    this.#position = lastSequence;
    return undefined;
  }
}

function isSettled(pending: PendingEvent): boolean {
  return pending.result !== undefined;
}

function settledFront(events: readonly PendingEvent[]): SettledEvent[] {
  const passed: SettledEvent[] = [];
  for (const { sequence, event, result } of events) {
    if (result === undefined) break;
    passed.push({ sequence, event, result });
  }
  return passed;
}
