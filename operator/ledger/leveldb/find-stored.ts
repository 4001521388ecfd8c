import type { UsageEvent } from '../../model/event.ts';
import type { Database } from './database.ts';
import { readEvent } from './event-walk.ts';
import { damage } from '../failures.ts';
import type { IdFilter } from './id-filter.ts';
import { decodeIdValue, isDerivedId, idKey } from './keys.ts';
import { parseInstant } from './parse-instant.ts';
import type { SegmentPool } from './segment-pool.ts';
import type { ChainLink, SealedSegment, SegmentSummary } from './state.ts';
import type { EncodedEvent } from '../writer.ts';

/** Where stored events may be found. */
export interface StoreView {
  readonly active: Database;
  readonly activeName: string;
  readonly segment: SegmentSummary;
  readonly link: ChainLink | undefined;
  /** Of the active segment's ids. */
  readonly ids: IdFilter;
  readonly sealed: readonly SealedSegment[];
  readonly pool: SegmentPool;
  /** Off for measuring what deduplication costs. */
  readonly deduplicate: boolean;
}

/** An event that is to be stored unless its id is there already. */
export interface OfferedEvent extends EncodedEvent {
  /** As {@link idKey} gives it. */
  readonly key: Buffer;
}

/**
 * The stored events that have the ids of these events, by id. Looks only into segments that can hold
 * them (docs/reference/ledger-format.md#a-write): an event of a window that is newer than all is not looked for.
 */
export async function findStored(
  offered: readonly OfferedEvent[],
  view: StoreView,
): Promise<ReadonlyMap<string, UsageEvent>> {
  const found = new Map<string, UsageEvent>();
  if (!view.deduplicate) return found;
  const inActive = offered.filter(
    ({ event, key }) => mayHold(view.segment, event) && view.ids.mayHave(key),
  );
  await lookUp(inActive, view.active, view.activeName, found);
  for (const segment of view.sealed.toReversed()) {
    if (segment.givenUp === true) continue;
    const candidates = offered.filter(
      ({ event }) => mayHold(segment, event) && !found.has(event.id),
    );
    if (candidates.length === 0) continue;
    await view.pool.use(segment, (database, where) => lookUp(candidates, database, where, found));
  }
  return found;
}

/** Runs `work` with the database of a segment, sealed or active. */
export async function useSegment<T>(
  view: StoreView,
  segment: SegmentSummary | SealedSegment,
  work: (database: Database, where: string) => Promise<T>,
): Promise<T> {
  if ('sealedAt' in segment) return view.pool.use(segment, work);
  return work(view.active, view.activeName);
}

function mayHold(segment: SegmentSummary, event: UsageEvent): boolean {
  if (!isDerivedId(event.id)) return segment.foreignIds;
  const { ends } = segment;
  const end = parseInstant(event.window_end);
  return ends !== undefined && end >= ends.from && end <= ends.to;
}

async function lookUp(
  offered: readonly OfferedEvent[],
  database: Database,
  where: string,
  found: Map<string, UsageEvent>,
): Promise<void> {
  if (offered.length === 0) return;
  const numbers = await database.getMany(offered.map(({ key }) => key));
  for (const [index, number] of numbers.entries()) {
    const id = offered[index]?.event.id;
    if (number === undefined || id === undefined) continue;
    found.set(id, await readById(database, where, id, decodeIdValue(number)));
  }
}

async function readById(
  database: Database,
  where: string,
  id: string,
  sequence: number,
): Promise<UsageEvent> {
  const event = await readEvent(database, where, sequence);
  if (event.id === id) return event;
  throw damage(where, `event ${sequence} does not have the id that leads to it: "${id}"`);
}

/** The stored event of an id, looked for in the newest segment first; undefined when there is none. */
export async function findEvent(id: string, view: StoreView): Promise<UsageEvent | undefined> {
  for (const segment of readableSegments(view).toReversed()) {
    const event = await useSegment(view, segment, async (database, where) => {
      const [number] = await database.getMany([idKey(id)]);
      return number === undefined
        ? undefined
        : await readEvent(database, where, decodeIdValue(number));
    });
    // A foreign id's key is a hash of it, so the event itself has the last word.
    if (event?.id === id) return event;
  }
  return undefined;
}

/** The end of the window of an event, RFC 3339; undefined where no segment has it. Rejects where it cannot be read. */
export async function windowEndAt(sequence: number, view: StoreView): Promise<string | undefined> {
  const read = async (database: Database, where: string): Promise<string> =>
    (await readEvent(database, where, sequence)).window_end;
  if (holds(view.segment, sequence)) return read(view.active, view.activeName);
  const segment = view.sealed.find((candidate) => holds(candidate, sequence));
  return segment === undefined ? undefined : view.pool.use(segment, read);
}

function holds(segment: SegmentSummary, sequence: number): boolean {
  return sequence >= segment.firstSequence && sequence <= segment.lastSequence;
}

/** All segments that can be read, the active one last. */
export function readableSegments(view: StoreView): readonly (SegmentSummary | SealedSegment)[] {
  return [...view.sealed.filter(({ givenUp }) => givenUp !== true), view.segment];
}
