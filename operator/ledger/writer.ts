import { encodeEvent, type UsageEvent } from '../model/event.ts';
import type { CursorMove } from './cursor-moves.ts';
import { ledgerFailure } from './failures.ts';
import type { AppendOutcome, Cursor, LedgerFailure, RecordChange } from './ledger.ts';

interface Queued {
  readonly kind: string;
  readonly events?: readonly EncodedEvent[];
}

interface Waiting<R> {
  readonly request: R;
  readonly events: number;
  /** Of its events' text. */
  readonly characters: number;
  readonly resolve: (outcome: RequestOutcome) => void;
}

/** A batch takes requests until it has this many events; a single request may have more. */
const BATCH_EVENTS = 1_000;
/** Requests that carry no event are small, but not free. */
const BATCH_REQUESTS = 2_000;
/** What may wait of pushed events. */
const QUEUE_EVENTS = 20_000;
const QUEUE_CHARACTERS = 16 * 1024 * 1024;

/**
 * The queue in front of the store: what waits while a batch is being written becomes the next one. `R`: what the storage is asked
 * for: {@link Request}, and what it asks of itself.
 */
export class Writer<R extends Queued> {
  readonly #write: (requests: readonly R[]) => Promise<readonly RequestOutcome[]>;
  readonly #queue: Waiting<R>[] = [];
  #waitingEvents = 0;
  #waitingCharacters = 0;
  #running: Promise<void> | undefined;
  #isStopping = false;

  constructor(write: (requests: readonly R[]) => Promise<readonly RequestOutcome[]>) {
    this.#write = write;
  }

  /** Waits for its turn. Refuses with `retryable` when too much waits already and `bounded` is set. */
  async submit(request: R, bounded: boolean): Promise<RequestOutcome> {
    if (this.#isStopping) return ledgerFailure('retryable', 'ledger: closed');
    const { events, characters } = sizeOf(request);
    const isFull =
      this.#waitingEvents + events > QUEUE_EVENTS ||
      this.#waitingCharacters + characters > QUEUE_CHARACTERS;
    if (bounded && isFull && this.#waitingEvents > 0) {
      const text = `ledger: queue: full: "${this.#waitingEvents} events wait"`;
      return ledgerFailure('retryable', text);
    }
    return new Promise((resolve) => {
      this.#queue.push({ request, events, characters, resolve });
      this.#waitingEvents += events;
      this.#waitingCharacters += characters;
      this.#running ??= this.#run();
    });
  }

  /** Refuses further requests and resolves when those that wait are written. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#takeBatch();
      const requests = batch.map(({ request }) => request);
      const outcomes = await this.#write(requests).catch((error: unknown) =>
        batch.map(() => ledgerFailure('retryable', `ledger: writing: ${String(error)}`)),
      );
      for (const [index, { resolve }] of batch.entries()) {
        resolve(outcomes[index] ?? ledgerFailure('retryable', 'ledger: writing: no outcome'));
      }
    }
    this.#running = undefined;
  }

  #takeBatch(): Waiting<R>[] {
    let events = 0;
    let count = 0;
    for (const waiting of this.#queue) {
      if (count > 0 && events + waiting.events > BATCH_EVENTS) break;
      if (count === BATCH_REQUESTS) break;
      events += waiting.events;
      this.#waitingCharacters -= waiting.characters;
      count += 1;
    }
    this.#waitingEvents -= events;
    return this.#queue.splice(0, count);
  }
}

function sizeOf({ events = [] }: Queued): { readonly events: number; readonly characters: number } {
  const characters = events.reduce((sum, { text }) => sum + text.length, 0);
  return { events: events.length, characters };
}

/** An event that is to be stored, and its text, by which the room it takes is known. */
export interface EncodedEvent {
  readonly event: UsageEvent;
  readonly text: string;
}

export function encodeEvents(events: readonly UsageEvent[]): readonly EncodedEvent[] {
  return events.map((event) => ({ event, text: encodeEvent(event) }));
}

/** What a caller wants written. Requests that wait together become one batch. */
export type Request =
  | {
      readonly kind: 'append';
      readonly events: readonly EncodedEvent[];
      readonly records: readonly RecordChange[];
      readonly windowEnd?: number;
    }
  | {
      readonly kind: 'cursor';
      readonly destination: string;
      /** Decides on the cursor as it is when the batch is made; `drop` deletes it. */
      readonly plan: (current: Cursor | undefined, head: number) => CursorMove | 'drop';
      /** Changed unless the plan fails. */
      readonly records?: readonly RecordChange[];
    };

/** What became of a request: `appended` for every kind that was written. */
export type RequestOutcome = Extract<AppendOutcome, { kind: 'appended' }> | LedgerFailure;
