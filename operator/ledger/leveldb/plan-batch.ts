import type { UsageEvent } from '../../model/event.ts';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import { AcceptedEvents } from '../accepted-events.ts';
import { checksumOf, keySeed, sealValue } from '../checked-value.ts';
import { BatchTree, chainValue, encodeStoredEvents } from '../event-chain.ts';
import { isEvidence } from '../evidence-keys.ts';
import { ledgerFailure } from '../failures.ts';
import type { Cursor, EventOutcome, RecordChange } from '../ledger.ts';
import type { Request, RequestOutcome } from '../writer.ts';
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
  type TimeRange,
} from './state.ts';

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
  turn: TimeSlice,
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

/** A change of one entry: a record, a cursor or a line of the list of sealed segments. */
interface EntryChange {
  readonly key: Buffer;
  /** undefined deletes. */
  readonly body: string | undefined;
}

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

  async finish(now: number, turn: TimeSlice): Promise<Omit<BatchPlan, 'outcomes'>> {
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

/** The operations that store events at the end of a segment, and the segment's summary after them. Their ids enter the filter. */
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
      // Before they are stored, so that the filter knows them whatever becomes of the batch.
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

/** What stores evidence in the segment of its events. It is not in the sum of all entries, and no new segment gets a copy. */
function evidenceOperation({ key: text, value }: RecordChange): Operation {
  const key = textKey(KEY_SPACE.evidence, text);
  if (value === undefined) return { type: 'del', key };
  return { type: 'put', key, value: sealValue(keySeed(key), value) };
}

/** The range that also covers a time. */
function widen(range: TimeRange | undefined, time: number): TimeRange {
  if (range === undefined) return { from: time, to: time };
  if (time < range.from) return { ...range, from: time };
  return time > range.to ? { ...range, to: time } : range;
}

/** The operations of entry changes, and the sum of all entries after them; thousands of them in turns. */
async function planChanges(
  changes: readonly EntryChange[],
  before: EntrySum,
  database: Database,
  turn: TimeSlice,
): Promise<{ readonly operations: readonly Operation[]; readonly sum: EntrySum }> {
  const operations: Operation[] = [];
  if (changes.length === 0) return { operations, sum: before };
  let sum = before;
  const oldValues = await database.getMany(changes.map(({ key }) => key));
  for (const [index, { key, body }] of changes.entries()) {
    if (turn.isOver) await turn.next();
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
