import type { UsageEvent } from '../../model/event.ts';
import type { Cursor, EventOutcome } from '../ledger.ts';
import { sameCharge } from '../same-charge.ts';
import type { Database, Operation } from './database.ts';
import type { Contents } from './entries.ts';
import { readEvent } from './event-walk.ts';
import { toLedgerFailure } from './failures.ts';
import { findStored, type OfferedEvent, type StoredEvents } from './find-stored.ts';
import { idKey, KEY_SPACE, numberKey, STATE_KEY, textKey } from './keys.ts';
import { planEvents } from './plan-events.ts';
import { planChanges } from './plan-changes.ts';
import type { EntryChange, Request, RequestOutcome } from './requests.ts';
import { encodeState, type LedgerState, type SealedSegment, type SegmentSummary } from './state.ts';

const NO_KEY = Buffer.of();

/** One batch, ready to be written, and what holds once it is. */
export interface BatchPlan {
  /** Empty when there is nothing to store, as when all events are repeats. */
  readonly operations: Operation[];
  readonly contents: Contents;
  /** By request. */
  readonly outcomes: readonly RequestOutcome[];
  /** Events that had the id of a stored one and differed from it. */
  readonly conflicts: readonly UsageEvent[];
}

/** Turns waiting requests into one batch. Reads, but writes nothing. `now` in milliseconds since the epoch. */
export async function planBatch(
  requests: readonly Request[],
  before: Contents,
  places: StoredEvents,
  now: number,
): Promise<BatchPlan> {
  const offers = requests.map((request) => offeredBy(request, places.deduplicate));
  // What cannot be read concerns only the requests that ask for it, so then each looks for itself.
  const stored = await findStored(offers.flat(), places).catch(() => undefined);
  const draft = createDraft(before, places);
  const outcomes: RequestOutcome[] = [];
  for (const [index, request] of requests.entries()) {
    outcomes.push(await draft.add(request, offers[index] ?? [], stored));
  }
  return { ...(await draft.finish(now)), outcomes };
}

function offeredBy(request: Request, deduplicate: boolean): readonly OfferedEvent[] {
  if (request.kind !== 'append') return [];
  return request.events.map(({ event, text }) => ({
    event,
    text,
    key: deduplicate ? idKey(event.id) : NO_KEY,
  }));
}

type StoredById = ReadonlyMap<string, UsageEvent>;

interface Draft {
  /** `stored` is undefined when it is not known for all requests together. */
  add(
    request: Request,
    offered: readonly OfferedEvent[],
    stored: StoredById | undefined,
  ): Promise<RequestOutcome>;
  finish(now: number): Promise<Omit<BatchPlan, 'outcomes'>>;
}

function createDraft(before: Contents, places: StoredEvents): Draft {
  const accepted: OfferedEvent[] = [];
  const acceptedById = new Map<string, UsageEvent>();
  const conflicts: UsageEvent[] = [];
  const changes = new Map<string, EntryChange>();
  const cursors = new Map(before.cursors);
  let { sealed } = before;
  let { lowWater, horizon, lastWindowEnd } = before.state;

  const change = (entry: EntryChange): void => {
    changes.set(entry.key.toString('latin1'), entry);
  };
  const judge = (offer: OfferedEvent, stored: StoredById): EventOutcome => {
    const { event } = offer;
    const first = acceptedById.get(event.id) ?? stored.get(event.id);
    if (first === undefined) {
      if (places.deduplicate) acceptedById.set(event.id, event);
      accepted.push(offer);
      return 'accepted';
    }
    if (sameCharge(first, event)) return 'duplicate';
    conflicts.push(event);
    return 'conflict';
  };
  const written = (outcomes: readonly EventOutcome[]): RequestOutcome => ({
    kind: 'appended',
    outcomes,
    head: before.state.segment.lastSequence + accepted.length,
  });

  const addAppend = async (
    request: Extract<Request, { kind: 'append' }>,
    offered: readonly OfferedEvent[],
    known: StoredById | undefined,
  ): Promise<RequestOutcome> => {
    const stored = known ?? (await findStored(offered, places));
    const outcomes = offered.map((offer) => judge(offer, stored));
    for (const entry of request.changes) change(entry);
    if (request.windowEnd !== undefined) {
      lastWindowEnd = Math.max(lastWindowEnd ?? 0, request.windowEnd);
    }
    return written(outcomes);
  };
  const addCursor = async (
    request: Extract<Request, { kind: 'cursor' }>,
  ): Promise<RequestOutcome> => {
    const { destination } = request;
    const move = request.plan(cursors.get(destination), before.state.segment.lastSequence);
    const key = textKey(KEY_SPACE.cursor, destination);
    if (move === 'drop') {
      cursors.delete(destination);
      change({ key, body: undefined });
      return written([]);
    }
    if (move.kind === 'failed') return move;
    for (const entry of request.changes ?? []) change(entry);
    if (move.cursor === undefined) return written([]);
    const cursor = await withWindowEnd(move.cursor, places);
    cursors.set(destination, cursor);
    change({ key, body: JSON.stringify(cursor) });
    return written([]);
  };
  const addForget = (request: Extract<Request, { kind: 'forget' }>): RequestOutcome => {
    const { firstSequence, lastSequence, ends } = request.segment;
    change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: undefined });
    sealed = sealed.filter((other) => other.firstSequence !== firstSequence);
    lowWater = Math.max(lowWater, lastSequence);
    horizon = Math.max(horizon, ends?.to ?? 0);
    return written([]);
  };
  const addGiveUp = (request: Extract<Request, { kind: 'give-up' }>): RequestOutcome => {
    const line: SealedSegment = { ...request.segment, givenUp: true };
    const { firstSequence, ends } = line;
    change({ key: numberKey(KEY_SPACE.sealed, firstSequence), body: JSON.stringify(line) });
    sealed = sealed.map((other) => (other.firstSequence === firstSequence ? line : other));
    // Repeats of its events would not be recognised.
    horizon = Math.max(horizon, ends?.to ?? 0);
    return written([]);
  };

  return {
    async add(request, offered, stored) {
      try {
        if (request.kind === 'append') return await addAppend(request, offered, stored);
        if (request.kind === 'cursor') return await addCursor(request);
        if (request.kind === 'give-up') return addGiveUp(request);
        return addForget(request);
      } catch (error) {
        return toLedgerFailure(request.kind, error);
      }
    },
    async finish(now) {
      const events = planEvents(accepted, before.state.segment, places, now);
      const entries = await planChanges([...changes.values()], before.state.entries, places.active);
      const operations = [...events.operations, ...entries.operations];
      if (operations.length === 0 && lastWindowEnd === before.state.lastWindowEnd) {
        return { operations, contents: before, conflicts };
      }
      const state: LedgerState = {
        ledgerId: before.state.ledgerId,
        batch: before.state.batch + 1,
        segment: events.segment,
        lowWater,
        horizon,
        ...(lastWindowEnd !== undefined && { lastWindowEnd }),
        entries: entries.sum,
      };
      operations.push({ type: 'put', key: STATE_KEY, value: encodeState(state) });
      return { operations, contents: { state, cursors, sealed }, conflicts };
    },
  };
}

/** The cursor with the end of the window of the event it stands at, where that can be read. */
async function withWindowEnd(cursor: Cursor, places: StoredEvents): Promise<Cursor> {
  // A cursor must be able to leave a damaged event behind.
  const windowEnd = await windowEndAt(cursor.sequence, places).catch(() => undefined);
  return windowEnd === undefined ? cursor : { ...cursor, windowEnd };
}

async function windowEndAt(sequence: number, places: StoredEvents): Promise<string | undefined> {
  const read = async (database: Database, where: string): Promise<string> =>
    (await readEvent(database, where, sequence)).window_end;
  if (holds(places.segment, sequence)) return read(places.active, places.activeName);
  const segment = places.sealed.find((candidate) => holds(candidate, sequence));
  return segment === undefined ? undefined : places.pool.use(segment, read);
}

function holds(segment: SegmentSummary, sequence: number): boolean {
  return sequence >= segment.firstSequence && sequence <= segment.lastSequence;
}
