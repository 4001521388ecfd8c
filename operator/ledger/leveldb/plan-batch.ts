import type { UsageEvent } from '../../model/event.ts';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import { AcceptedEvents } from '../accepted-events.ts';
import { checksumOf, keySeed, sealValue } from '../checked-value.ts';
import { BatchTree, chainValue, encodeStoredEvents } from '../event-chain.ts';
import { isEvidence } from '../evidence-keys.ts';
import { ledgerFailure } from '../failures.ts';
import type { Cursor, EventOutcome, RecordChange } from '../ledger.ts';
import type { Request, WriteRequestOutcome } from '../writer.ts';
import { batchMarkOperation } from './batch-marks.ts';
import type { Database, Operation } from './database.ts';
import { toLedgerFailure } from './failures.ts';
import { findStored, type OfferedEvent, type StoreView, windowEndAt } from './find-stored.ts';
import {
  encodeIdValue,
  idKey,
  isDerivedId,
  KEY_SPACE,
  numberKey,
  STATE_KEY,
  textKey,
} from './keys.ts';
import { parseInstant } from './parse-instant.ts';
import {
  addEntry,
  type Contents,
  encodeState,
  type EntrySum,
  type LedgerState,
  linkAfter,
  removeEntry,
  type SealedSegment,
  type SegmentSummary,
  type TimeBounds,
} from './state.ts';

const NO_KEY = Buffer.of();

/** A request to the store. */
export type LevelRequest =
  | Request
  /** Retention: removes the oldest sealed segment from the list. */
  | { readonly kind: 'forget'; readonly segment: SealedSegment }
  /** An operator accepts the damage of a sealed segment. */
  | { readonly kind: 'give-up'; readonly segment: SealedSegment }
  /** Skips the numbers up to `head`, which were used before: a new segment begins after them. */
  | { readonly kind: 'skip'; readonly head: number };

/** One batch, ready to be written, and the store's contents after it. */
export interface BatchPlan {
  /** Empty when there is nothing to store, for example when all events are repeats. */
  readonly operations: Operation[];
  readonly contents: Contents;
  /** The events that it stores, in order. */
  readonly events: readonly UsageEvent[];
  readonly outcomes: readonly WriteRequestOutcome[];
  /** Events that have the id of a stored event and differ from it. */
  readonly conflicts: readonly UsageEvent[];
}

/**
 * Combines waiting requests into one batch, and lets other work run in between. Reads, but writes
 * nothing. `now` is milliseconds since the epoch.
 */
export async function planBatch(
  requests: readonly LevelRequest[],
  before: Contents,
  view: StoreView,
  now: number,
  slice: TimeSlice,
): Promise<BatchPlan> {
  const offers = requests.map((request) => offeredBy(request, view.deduplicate));
  // If an event cannot be read, each request looks up its own ids, so that only some fail.
  const stored = await findStored(offers.flat(), view).catch(() => undefined);
  const draft = new BatchDraft(before, view);
  const outcomes: WriteRequestOutcome[] = [];
  for (const [index, request] of requests.entries()) {
    outcomes.push(await draft.add(request, offers[index] ?? [], stored));
  }
  return { ...(await draft.finish(now, slice)), outcomes };
}

function offeredBy(request: LevelRequest, deduplicate: boolean): readonly OfferedEvent[] {
  if (request.kind !== 'append') return [];
  return request.events.map(({ event, text }) => ({
    event,
    text,
    key: deduplicate ? idKey(event.id) : NO_KEY,
  }));
}

type EventsById = ReadonlyMap<string, UsageEvent>;

/** A change of one entry: a record, a cursor or an item of the list of sealed segments. */
interface EntryChange {
  readonly key: Buffer;
  /** undefined deletes. */
  readonly body: string | undefined;
}

/** Builds a batch from requests in order; each sees the changes of the earlier ones. */
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

  /** Adds a request. `stored` is undefined if the common lookup failed. */
  async add(
    request: LevelRequest,
    offered: readonly OfferedEvent[],
    stored: EventsById | undefined,
  ): Promise<WriteRequestOutcome> {
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

  async finish(now: number, slice: TimeSlice): Promise<Omit<BatchPlan, 'outcomes'>> {
    const before = this.#before;
    const { events: accepted, conflicts } = this.#accepted;
    const lastWindowEnd = this.#lastWindowEnd;
    const changes = [...this.#changes.values()];
    const events = planEvents(accepted, before.state.segment, this.#view, now);
    const entries = await planChanges(changes, before.state.entries, this.#view.active, slice);
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
      lastWindowEnd,
      entries: entries.sum,
    };
    operations.push({ type: 'put', key: STATE_KEY, value: encodeState(state) });
    const contents = { state, cursors: this.#cursors, sealed: this.#sealed };
    return { operations, contents, events: accepted.map(({ event }) => event), conflicts };
  }

  async #append(
    request: Extract<Request, { kind: 'append' }>,
    offered: readonly OfferedEvent[],
    known: EventsById | undefined,
  ): Promise<WriteRequestOutcome> {
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

  async #moveCursor(request: Extract<Request, { kind: 'cursor' }>): Promise<WriteRequestOutcome> {
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

  #forget({ firstSequence, lastSequence, ends }: SealedSegment): WriteRequestOutcome {
    this.#change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: undefined });
    this.#sealed = this.#sealed.filter((other) => other.firstSequence !== firstSequence);
    this.#lowWater = Math.max(this.#lowWater, lastSequence);
    this.#horizon = Math.max(this.#horizon, ends?.to ?? 0);
    return this.#written([]);
  }

  #giveUp(segment: SealedSegment): WriteRequestOutcome {
    const line: SealedSegment = { ...segment, givenUp: true };
    const { firstSequence, ends } = line;
    this.#change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: JSON.stringify(line) });
    this.#sealed = this.#sealed.map((other) =>
      other.firstSequence === firstSequence ? line : other,
    );
    // Repeats of its events can no longer be recognized.
    this.#horizon = Math.max(this.#horizon, ends?.to ?? 0);
    return this.#written([]);
  }

  /** The store has begun the new segment before, unless that failed. */
  #skip(head: number): WriteRequestOutcome {
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

  #written(outcomes: readonly EventOutcome[]): WriteRequestOutcome {
    const head = this.#before.state.segment.lastSequence + this.#accepted.events.length;
    return { kind: 'appended', outcomes, head };
  }
}

/** Adds the window end of the event at the cursor, if it can be read. */
async function withWindowEnd(cursor: Cursor, view: StoreView): Promise<Cursor> {
  // A cursor must be able to pass a damaged event.
  const windowEnd = await windowEndAt(cursor.sequence, view).catch(() => undefined);
  return windowEnd === undefined ? cursor : { ...cursor, windowEnd };
}

/** Operations that append events to a segment, and its new summary. Adds ids to the filter. */
function planEvents(
  accepted: readonly OfferedEvent[],
  before: SegmentSummary,
  { deduplicate, ids }: Pick<StoreView, 'deduplicate' | 'ids'>,
  now: number,
): { readonly operations: readonly Operation[]; readonly segment: SegmentSummary } {
  const operations: Operation[] = [];
  if (accepted.length === 0) return { operations, segment: before };
  const first = before.lastSequence + 1;
  const texts = accepted.map(({ text }) => text);
  const { values, bytes } = encodeStoredEvents(first, texts);
  const tree = new BatchTree();
  let { starts, ends, foreignIds } = before;
  for (const [index, value] of values.entries()) {
    const sequence = first + index;
    operations.push({ type: 'put', key: numberKey(KEY_SPACE.event, sequence), value });
    const offer = accepted[index];
    if (offer === undefined) continue;
    const { event, key, text } = offer;
    tree.add(sequence, event.tenant, text);
    if (deduplicate) {
      // The filter must know the ids even if the outcome of the write is unknown.
      ids.add(key);
      operations.push({ type: 'put', key, value: encodeIdValue(sequence) });
    }
    starts = widen(starts, parseInstant(event.window_start));
    ends = widen(ends, parseInstant(event.window_end));
    foreignIds ||= !isDerivedId(event.id);
  }
  const lastSequence = before.lastSequence + accepted.length;
  const root = tree.root();
  const chain = chainValue(before.chain, first, root);
  operations.push(batchMarkOperation({ lastSequence, appendedAt: now, chain, root }));
  const segment: SegmentSummary = {
    ...before,
    lastSequence,
    chain,
    bytes: before.bytes + bytes.length,
    foreignIds,
    ...(starts !== undefined && { starts }),
    ...(ends !== undefined && { ends }),
  };
  return { operations, segment };
}

/**
 * The operation that stores evidence in the segment of its events. Evidence is not in the sum of
 * all entries and is not copied to new segments.
 */
function evidenceOperation({ key: text, value }: RecordChange): Operation {
  const key = textKey(KEY_SPACE.evidence, text);
  if (value === undefined) return { type: 'del', key };
  return { type: 'put', key, value: sealValue(keySeed(key), value) };
}

function widen(range: TimeBounds | undefined, time: number): TimeBounds {
  if (range === undefined) return { from: time, to: time };
  if (time < range.from) return { ...range, from: time };
  return time > range.to ? { ...range, to: time } : range;
}

/** Operations of entry changes, and the sum of all entries after them. Yields in between. */
async function planChanges(
  changes: readonly EntryChange[],
  before: EntrySum,
  database: Database,
  slice: TimeSlice,
): Promise<{ readonly operations: readonly Operation[]; readonly sum: EntrySum }> {
  const operations: Operation[] = [];
  if (changes.length === 0) return { operations, sum: before };
  let sum = before;
  const oldValues = await database.getMany(changes.map(({ key }) => key));
  for (const [index, { key, body }] of changes.entries()) {
    if (slice.isOver) await slice.next();
    const old = oldValues[index];
    if (old !== undefined) sum = removeEntry(sum, checksumOf(old));
    if (body !== undefined) {
      const value = sealValue(keySeed(key), body);
      sum = addEntry(sum, checksumOf(value));
      operations.push({ type: 'put', key, value });
      continue;
    }
    if (old !== undefined) operations.push({ type: 'del', key });
  }
  return { operations, sum };
}
