import type { Turn } from '../../telemetry/turn.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Cursor, EventOutcome, RecordChange } from '../ledger.ts';
import { AcceptedEvents } from '../accepted-events.ts';
import { isEvidence } from '../evidence-keys.ts';
import {
  type EntryChange,
  evidenceOperation,
  planEvents,
  planChanges,
} from './batch-operations.ts';
import type { Database, Operation } from './database.ts';
import { readEvent } from './event-walk.ts';
import { ledgerFailure } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import { findStored, type OfferedEvent, type StoreView } from './find-stored.ts';
import { idKey, KEY_SPACE, numberKey, STATE_KEY, textKey } from './keys.ts';
import {
  type Contents,
  encodeState,
  linkAfter,
  type LedgerState,
  type SealedSegment,
  type SegmentSummary,
} from './state.ts';
import type { Request, RequestOutcome } from '../writer.ts';

const NO_KEY = Buffer.of();

/** What the store is asked for. */
export type LevelRequest =
  | Request
  /** Retention: forgets the oldest sealed segment. */
  | { readonly kind: 'forget'; readonly segment: SealedSegment }
  /** An operator accepts the damage of a sealed segment. */
  | { readonly kind: 'give-up'; readonly segment: SealedSegment }
  /** Numbers up to `head` were given before and are left out: a new segment begins behind them. */
  | { readonly kind: 'skip'; readonly head: number };

/** One batch, ready to be written, and what holds once it is. */
export interface BatchPlan {
  /** Empty when there is nothing to store, as when all events are repeats. */
  readonly operations: Operation[];
  readonly contents: Contents;
  /** Those that are stored by it, in their order. */
  readonly events: readonly UsageEvent[];
  /** By request. */
  readonly outcomes: readonly RequestOutcome[];
  /** Events that had the id of a stored one and differed from it. */
  readonly conflicts: readonly UsageEvent[];
}

/**
 * Turns waiting requests into one batch, with turns for others in between. Reads, but writes nothing. `now` in
 * milliseconds since the epoch.
 */
export async function planBatch(
  requests: readonly LevelRequest[],
  before: Contents,
  view: StoreView,
  now: number,
  turn: Turn,
): Promise<BatchPlan> {
  const offers = requests.map((request) => offeredBy(request, view.deduplicate));
  // What cannot be read concerns only the requests that ask for it, so then each looks for itself.
  const stored = await findStored(offers.flat(), view).catch(() => undefined);
  const draft = new BatchDraft(before, view);
  const outcomes: RequestOutcome[] = [];
  for (const [index, request] of requests.entries()) {
    outcomes.push(await draft.add(request, offers[index] ?? [], stored));
  }
  return { ...(await draft.finish(now, turn)), outcomes };
}

function offeredBy(request: LevelRequest, deduplicate: boolean): readonly OfferedEvent[] {
  if (request.kind !== 'append') return [];
  return request.events.map(({ event, text }) => ({
    event,
    text,
    key: deduplicate ? idKey(event.id) : NO_KEY,
  }));
}

type StoredById = ReadonlyMap<string, UsageEvent>;

/** A batch in the making: requests are added in order, each seeing what those before it change. */
class BatchDraft {
  readonly #before: Contents;
  readonly #view: StoreView;
  readonly #accepted: AcceptedEvents<OfferedEvent>;
  readonly #changes = new Map<string, EntryChange>();
  readonly #evidence: Operation[] = [];
  readonly #cursors: Map<string, Cursor>;
  #sealed: readonly SealedSegment[];
  #lowWater: number;
  #horizon: number;
  #lastWindowEnd: number | undefined;

  constructor(before: Contents, view: StoreView) {
    this.#before = before;
    this.#view = view;
    this.#accepted = new AcceptedEvents(view.deduplicate);
    this.#cursors = new Map(before.cursors);
    this.#sealed = before.sealed;
    this.#lowWater = before.state.lowWater;
    this.#horizon = before.state.horizon;
    this.#lastWindowEnd = before.state.lastWindowEnd;
  }

  /** `stored` is undefined when it is not known for all requests together. */
  async add(
    request: LevelRequest,
    offered: readonly OfferedEvent[],
    stored: StoredById | undefined,
  ): Promise<RequestOutcome> {
    try {
      if (request.kind === 'append') return await this.#append(request, offered, stored);
      if (request.kind === 'cursor') return await this.#moveCursor(request);
      if (request.kind === 'give-up') return this.#giveUp(request.segment);
      if (request.kind === 'skip') return this.#skip(request.head);
      return this.#forget(request.segment);
    } catch (error) {
      return toLedgerFailure(request.kind, error);
    }
  }

  async finish(now: number, turn: Turn): Promise<Omit<BatchPlan, 'outcomes'>> {
    const before = this.#before;
    const { events: accepted, conflicts } = this.#accepted;
    const lastWindowEnd = this.#lastWindowEnd;
    const changes = [...this.#changes.values()];
    const events = planEvents(accepted, before.state.segment, this.#view, now);
    const entries = await planChanges(changes, before.state.entries, this.#view.active, turn);
    const operations = [...events.operations, ...entries.operations, ...this.#evidence];
    if (operations.length === 0 && lastWindowEnd === before.state.lastWindowEnd) {
      return { operations, contents: before, events: [], conflicts };
    }
    const state: LedgerState = {
      ledgerId: before.state.ledgerId,
      batch: before.state.batch + 1,
      link: before.state.link ?? linkAfter(before.state.segment),
      segment: events.segment,
      lowWater: this.#lowWater,
      horizon: this.#horizon,
      ...(lastWindowEnd !== undefined && { lastWindowEnd }),
      entries: entries.sum,
    };
    operations.push({ type: 'put', key: STATE_KEY, value: encodeState(state) });
    const contents = { state, cursors: this.#cursors, sealed: this.#sealed };
    return { operations, contents, events: accepted.map(({ event }) => event), conflicts };
  }

  async #append(
    request: Extract<Request, { kind: 'append' }>,
    offered: readonly OfferedEvent[],
    known: StoredById | undefined,
  ): Promise<RequestOutcome> {
    const stored = known ?? (await findStored(offered, this.#view));
    const outcomes = offered.map((offer) =>
      this.#accepted.offer(offer, stored.get(offer.event.id)),
    );
    this.#changeRecords(request.records);
    if (request.windowEnd !== undefined) {
      this.#lastWindowEnd = Math.max(this.#lastWindowEnd ?? 0, request.windowEnd);
    }
    return this.#written(outcomes);
  }

  async #moveCursor(request: Extract<Request, { kind: 'cursor' }>): Promise<RequestOutcome> {
    const { destination } = request;
    const head = this.#before.state.segment.lastSequence;
    const move = request.plan(this.#cursors.get(destination), head);
    const key = textKey(KEY_SPACE.cursor, destination);
    if (move === 'drop') {
      this.#cursors.delete(destination);
      this.#change({ key, body: undefined });
      return this.#written([]);
    }
    if (move.kind === 'failed') return move;
    this.#changeRecords(request.records);
    if (move.cursor === undefined) return this.#written([]);
    const cursor = await withWindowEnd(move.cursor, this.#view);
    this.#cursors.set(destination, cursor);
    this.#change({ key, body: JSON.stringify(cursor) });
    return this.#written([]);
  }

  #forget({ firstSequence, lastSequence, ends }: SealedSegment): RequestOutcome {
    this.#change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: undefined });
    this.#sealed = this.#sealed.filter((other) => other.firstSequence !== firstSequence);
    this.#lowWater = Math.max(this.#lowWater, lastSequence);
    this.#horizon = Math.max(this.#horizon, ends?.to ?? 0);
    return this.#written([]);
  }

  #giveUp(segment: SealedSegment): RequestOutcome {
    const line: SealedSegment = { ...segment, givenUp: true };
    const { firstSequence, ends } = line;
    this.#change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: JSON.stringify(line) });
    this.#sealed = this.#sealed.map((other) =>
      other.firstSequence === firstSequence ? line : other,
    );
    // Repeats of its events would not be recognised.
    this.#horizon = Math.max(this.#horizon, ends?.to ?? 0);
    return this.#written([]);
  }

  /** The store has begun the segment by now, unless it could not. */
  #skip(head: number): RequestOutcome {
    if (this.#before.state.segment.lastSequence >= head) return this.#written([]);
    return ledgerFailure('retryable', `ledger: a segment behind event ${head} cannot be begun`);
  }

  #changeRecords(records: readonly RecordChange[] = []): void {
    for (const change of records) {
      const { key, value } = change;
      if (isEvidence(key)) this.#evidence.push(evidenceOperation(change));
      else this.#change({ key: textKey(KEY_SPACE.record, key), body: value });
    }
  }

  #change(entry: EntryChange): void {
    this.#changes.set(entry.key.toString('latin1'), entry);
  }

  #written(outcomes: readonly EventOutcome[]): RequestOutcome {
    const head = this.#before.state.segment.lastSequence + this.#accepted.events.length;
    return { kind: 'appended', outcomes, head };
  }
}

/** The cursor with the end of the window of the event it stands at, where that can be read. */
async function withWindowEnd(cursor: Cursor, view: StoreView): Promise<Cursor> {
  // A cursor must be able to leave a damaged event behind.
  const windowEnd = await windowEndAt(cursor.sequence, view).catch(() => undefined);
  return windowEnd === undefined ? cursor : { ...cursor, windowEnd };
}

async function windowEndAt(sequence: number, view: StoreView): Promise<string | undefined> {
  const read = async (database: Database, where: string): Promise<string> =>
    (await readEvent(database, where, sequence)).window_end;
  if (holds(view.segment, sequence)) return read(view.active, view.activeName);
  const segment = view.sealed.find((candidate) => holds(candidate, sequence));
  return segment === undefined ? undefined : view.pool.use(segment, read);
}

function holds(segment: SegmentSummary, sequence: number): boolean {
  return sequence >= segment.firstSequence && sequence <= segment.lastSequence;
}
