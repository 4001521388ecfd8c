import { encodeEvent, type UsageEvent } from '../model/event.ts';
import type { CursorMove } from './cursor-moves.ts';
import { ledgerFailure } from './failures.ts';
import type { AppendOutcome, Cursor, LedgerFailure, RecordChange } from './ledger.ts';

/** The queue in front of the store: what waits while a batch is being written becomes the next one. */
export interface Writer<R> {
  /** Waits for its turn. Refuses with `retryable` when too much waits already and `bounded` is set. */
  submit(request: R, bounded: boolean): Promise<RequestOutcome>;
  /** Refuses further requests and resolves when those that wait are written. */
  stop(): Promise<void>;
}

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

/** `R`: what the storage is asked for: {@link Request}, and what it asks of itself. */
export function createWriter<R extends Queued>(
  write: (requests: readonly R[]) => Promise<readonly RequestOutcome[]>,
): Writer<R> {
  const queue: Waiting<R>[] = [];
  let waitingEvents = 0;
  let waitingCharacters = 0;
  let running: Promise<void> | undefined;
  let stopping = false;

  const takeBatch = (): Waiting<R>[] => {
    let events = 0;
    let count = 0;
    for (const waiting of queue) {
      if (count > 0 && events + waiting.events > BATCH_EVENTS) break;
      if (count === BATCH_REQUESTS) break;
      events += waiting.events;
      waitingCharacters -= waiting.characters;
      count += 1;
    }
    waitingEvents -= events;
    return queue.splice(0, count);
  };
  const run = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = takeBatch();
      const outcomes = await write(batch.map(({ request }) => request)).catch((error: unknown) =>
        batch.map(() => ledgerFailure('retryable', `ledger: writing: ${String(error)}`)),
      );
      for (const [index, { resolve }] of batch.entries()) {
        resolve(outcomes[index] ?? ledgerFailure('retryable', 'ledger: writing: no outcome'));
      }
    }
    running = undefined;
  };

  return {
    async submit(request, bounded) {
      if (stopping) return ledgerFailure('retryable', 'ledger: closed');
      const { events, characters } = sizeOf(request);
      const full =
        waitingEvents + events > QUEUE_EVENTS || waitingCharacters + characters > QUEUE_CHARACTERS;
      if (bounded && full && waitingEvents > 0) {
        return ledgerFailure('retryable', `ledger: queue: full: "${waitingEvents} events wait"`);
      }
      return new Promise((resolve) => {
        queue.push({ request, events, characters, resolve });
        waitingEvents += events;
        waitingCharacters += characters;
        running ??= run();
      });
    },
    async stop() {
      stopping = true;
      await running;
    },
  };
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
