import type { UsageEvent } from '../../model/event.ts';
import { ledgerFailure } from '../failures.ts';
import type { Cursor, EventOutcome, LedgerFailure, RecordChange } from '../ledger.ts';
import { AcceptedEvents } from '../accepted-events.ts';
import type { EncodedEvent, Request, WriteRequestOutcome } from '../writer.ts';
import type { StoredById } from './find-stored.ts';
import type { StreamContents } from './state.ts';

/** A change of the stream. */
export type PostgresRequest =
  | Request
  /**
   * Skips the numbers up to `head`, which were used before. The chain continues from `chain` if it
   * is given. Must be the only request of its batch.
   */
  | { readonly kind: 'skip'; readonly head: number; readonly chain?: string };

/** The planned changes of a batch, before anything is written. */
export interface StreamBatchPlan {
  readonly outcomes: readonly WriteRequestOutcome[];
  /** The number before the first accepted event. */
  readonly head: number;
  /** The chain value before the first accepted event, hex. */
  readonly chain: string;
  /** Events to store, in the order of their sequence numbers. */
  readonly accepted: readonly EncodedEvent[];
  /** Events that have the id of a stored event and differ from it. */
  readonly conflicts: readonly UsageEvent[];
  /** The value of each record that changes; undefined deletes it. */
  readonly records: ReadonlyMap<string, string | undefined>;
  /** Each cursor that changes; undefined drops it. */
  readonly cursors: ReadonlyMap<string, Cursor | undefined>;
  readonly lastWindowEnd: number | undefined;
}

/** Combines waiting requests into one batch; each sees the changes of the earlier ones. */
export function planBatch(
  requests: readonly PostgresRequest[],
  before: StreamContents,
  stored: StoredById,
): StreamBatchPlan {
  const draft = new BatchDraft(before, stored);
  const outcomes = requests.map((request) => draft.add(request));
  return { ...draft.changes(), outcomes };
}

class BatchDraft {
  readonly #before: StreamContents;
  readonly #stored: StoredById;
  readonly #accepted = new AcceptedEvents<EncodedEvent>();
  readonly #records = new Map<string, string | undefined>();
  readonly #cursors = new Map<string, Cursor | undefined>();
  #head: number;
  #chain: string;
  #lastWindowEnd: number | undefined;

  constructor(before: StreamContents, stored: StoredById) {
    this.#before = before;
    this.#stored = stored;
    this.#head = before.state.head;
    this.#chain = before.state.chain;
    this.#lastWindowEnd = before.state.lastWindowEnd;
  }

  add(request: PostgresRequest): WriteRequestOutcome {
    if (request.kind === 'skip') return this.#skip(request.head, request.chain);
    const refused = refuseRecords(request.records);
    if (refused !== undefined) return refused;
    return request.kind === 'append' ? this.#append(request) : this.#moveCursor(request);
  }

  changes(): Omit<StreamBatchPlan, 'outcomes'> {
    return {
      head: this.#head,
      chain: this.#chain,
      accepted: this.#accepted.events,
      conflicts: this.#accepted.conflicts,
      records: this.#records,
      cursors: this.#cursors,
      lastWindowEnd: this.#lastWindowEnd,
    };
  }

  #skip(head: number, chain: string | undefined): WriteRequestOutcome {
    if (head > this.#head) {
      this.#head = head;
      this.#chain = chain ?? this.#chain;
    }
    return this.#written([]);
  }

  #append(request: Extract<Request, { kind: 'append' }>): WriteRequestOutcome {
    const stored = new Map<string, UsageEvent>();
    for (const { event } of request.events) {
      const found = this.#stored.get(event.id);
      if (found === undefined) continue;
      if ('kind' in found) return found;
      stored.set(event.id, found);
    }
    const outcomes = request.events.map((offer) =>
      this.#accepted.offer(offer, stored.get(offer.event.id)),
    );
    this.#changeRecords(request.records);
    if (request.windowEnd !== undefined) {
      this.#lastWindowEnd = Math.max(this.#lastWindowEnd ?? 0, request.windowEnd);
    }
    return this.#written(outcomes);
  }

  #moveCursor(request: Extract<Request, { kind: 'cursor' }>): WriteRequestOutcome {
    const { destination } = request;
    const current = this.#cursors.has(destination)
      ? this.#cursors.get(destination)
      : this.#before.cursors.get(destination);
    const move = request.plan(current, this.#before.state.head);
    if (move === 'drop') {
      this.#cursors.set(destination, undefined);
      return this.#written([]);
    }
    if (move.kind === 'failed') return move;
    this.#changeRecords(request.records);
    if (move.cursor !== undefined) this.#cursors.set(destination, move.cursor);
    return this.#written([]);
  }

  #changeRecords(records: readonly RecordChange[] = []): void {
    for (const { key, value } of records) this.#records.set(key, value);
  }

  #written(outcomes: readonly EventOutcome[]): WriteRequestOutcome {
    const head = this.#head + this.#accepted.events.length;
    return { kind: 'appended', outcomes, head };
  }
}

/** Refuses records with U+0000, which PostgreSQL's text cannot contain; writes the others. */
function refuseRecords(records: readonly RecordChange[] = []): LedgerFailure | undefined {
  const wrong = records.find(({ key, value = '' }) => key.includes('\0') || value.includes('\0'));
  if (wrong === undefined) return undefined;
  return ledgerFailure('invalid', `record: contains U+0000: ${JSON.stringify(wrong.key)}`);
}
