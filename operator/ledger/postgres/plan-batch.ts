import type { UsageEvent } from '../../model/event.ts';
import { ledgerFailure } from '../failures.ts';
import type { Cursor, EventOutcome, LedgerFailure, RecordChange } from '../ledger.ts';
import { AcceptedEvents } from '../accepted-events.ts';
import type { EncodedEvent, Request, RequestOutcome } from '../writer.ts';
import type { StoredById } from './find-stored.ts';
import type { Contents } from './state.ts';

/** A change of the stream. */
export type PostgresRequest =
  | Request
  /**
   * Leaves out the numbers up to `head`, which were given before; the chain goes on from `chain` where it is given.
   * Comes in a batch of its own.
   */
  | { readonly kind: 'skip'; readonly head: number; readonly chain?: string };

/** What a batch comes to, before anything of it is written. */
export interface BatchPlan {
  /** By request. */
  readonly outcomes: readonly RequestOutcome[];
  /** The number before the first accepted event. */
  readonly head: number;
  /** The chain value before the first accepted event, hex. */
  readonly chain: string;
  /** To be stored, in the order of their numbers. */
  readonly accepted: readonly EncodedEvent[];
  /** Events that had the id of a stored one and differed from it. */
  readonly conflicts: readonly UsageEvent[];
  /** The value of each record that changes; undefined deletes it. */
  readonly records: ReadonlyMap<string, string | undefined>;
  /** Each cursor that changes; undefined drops it. */
  readonly cursors: ReadonlyMap<string, Cursor | undefined>;
  readonly lastWindowEnd: number | undefined;
}

/** Turns waiting requests into one batch: each sees what those before it change. */
export function planBatch(
  requests: readonly PostgresRequest[],
  before: Contents,
  stored: StoredById,
): BatchPlan {
  const draft = new BatchDraft(before, stored);
  const outcomes = requests.map((request) => draft.add(request));
  return { ...draft.changes(), outcomes };
}

class BatchDraft {
  readonly #before: Contents;
  readonly #stored: StoredById;
  readonly #accepted = new AcceptedEvents<EncodedEvent>();
  readonly #records = new Map<string, string | undefined>();
  readonly #cursors = new Map<string, Cursor | undefined>();
  #head: number;
  #chain: string;
  #lastWindowEnd: number | undefined;

  constructor(before: Contents, stored: StoredById) {
    this.#before = before;
    this.#stored = stored;
    this.#head = before.state.head;
    this.#chain = before.state.chain;
    this.#lastWindowEnd = before.state.lastWindowEnd;
  }

  add(request: PostgresRequest): RequestOutcome {
    if (request.kind === 'skip') return this.#skip(request.head, request.chain);
    const refused = refuseRecords(request.records);
    if (refused !== undefined) return refused;
    return request.kind === 'append' ? this.#append(request) : this.#moveCursor(request);
  }

  changes(): Omit<BatchPlan, 'outcomes'> {
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

  #skip(head: number, chain: string | undefined): RequestOutcome {
    if (head > this.#head) {
      this.#head = head;
      this.#chain = chain ?? this.#chain;
    }
    return this.#written([]);
  }

  #append(request: Extract<Request, { kind: 'append' }>): RequestOutcome {
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

  #moveCursor(request: Extract<Request, { kind: 'cursor' }>): RequestOutcome {
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

  #written(outcomes: readonly EventOutcome[]): RequestOutcome {
    const head = this.#head + this.#accepted.events.length;
    return { kind: 'appended', outcomes, head };
  }
}

/** PostgreSQL's text cannot hold U+0000; one such record must not keep the batch from being written. */
function refuseRecords(records: readonly RecordChange[] = []): LedgerFailure | undefined {
  const wrong = records.find(({ key, value = '' }) => key.includes('\0') || value.includes('\0'));
  if (wrong === undefined) return undefined;
  return ledgerFailure('invalid', `record: holds U+0000: ${JSON.stringify(wrong.key)}`);
}
