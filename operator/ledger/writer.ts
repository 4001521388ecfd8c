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
  /** Characters of its events' texts. */
  readonly characters: number;
  readonly resolve: (outcome: WriteRequestOutcome) => void;
}

/** A batch takes requests up to this many events; a single request may have more. */
const BATCH_EVENTS = 1_000;
/** Limit of requests in a batch, for requests without events. */
const BATCH_REQUESTS = 2_000;
/** Limits of waiting pushed events. */
const QUEUE_EVENTS = 20_000;
const QUEUE_CHARACTERS = 16 * 1024 * 1024;

/**
 * The queue in front of the store: requests that wait during a write form the next batch. `R`: the
 * storage's requests, {@link Request} and further ones.
 */
export class Writer<R extends Queued> {
  readonly #write: (requests: readonly R[]) => Promise<readonly WriteRequestOutcome[]>;
  readonly #queue: Waiting<R>[] = [];
  #waitingEvents = 0;
  #waitingCharacters = 0;
  #running: Promise<void> | undefined;
  #isStopping = false;

  constructor(write: (requests: readonly R[]) => Promise<readonly WriteRequestOutcome[]>) {
    this.#write = write;
  }

  /** Queues a request; resolves with its outcome. If `bounded`, a full queue is `retryable`. */
  async submit(request: R, bounded: boolean): Promise<WriteRequestOutcome> {
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

  /** Refuses further requests and resolves when the waiting ones are written. */
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

/** An event to store and its text, which determines its size. */
export interface EncodedEvent {
  readonly event: UsageEvent;
  readonly text: string;
}

export function encodeEvents(events: readonly UsageEvent[]): readonly EncodedEvent[] {
  return events.map((event) => ({ event, text: encodeEvent(event) }));
}

/** A write request of a caller. Requests that wait together become one batch. */
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
      /** Decides from the cursor at the time of the batch; `drop` deletes it. */
      readonly plan: (current: Cursor | undefined, head: number) => CursorMove | 'drop';
      /** Records to change unless the plan fails. */
      readonly records?: readonly RecordChange[];
    };

/** Outcome of a request: `appended` for every kind that was written. */
export type WriteRequestOutcome = Extract<AppendOutcome, { kind: 'appended' }> | LedgerFailure;
