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

/** The segments in which stored events are looked up. */
export interface StoreView {
  readonly active: Database;
  readonly activeName: string;
  readonly segment: SegmentSummary;
  readonly link: ChainLink | undefined;
  readonly ids: IdFilter;
  readonly sealed: readonly SealedSegment[];
  readonly pool: SegmentPool;
  /** False only to measure the cost of deduplication. */
  readonly deduplicate: boolean;
}

/** An event to store unless its id is stored already. */
export interface OfferedEvent extends EncodedEvent {
  /** Its {@link idKey}. */
  readonly key: Buffer;
}

/**
 * The stored events with the ids of the given events, by id. Searches only segments that may
 * contain them (docs/reference/ledger-format.md#a-write): none for an event of a window newer than
 * all stored ones.
 */
export async function findStored(
  offered: readonly OfferedEvent[],
  view: StoreView,
): Promise<ReadonlyMap<string, UsageEvent>> {
  const found = new Map<string, UsageEvent>();
  if (!view.deduplicate) return found;
  const inActive = offered.filter(
    ({ event, key }) => mayContain(view.segment, event) && view.ids.mayHave(key),
  );
  await lookUp(inActive, view.active, view.activeName, found);
  for (const segment of view.sealed.toReversed()) {
    if (segment.givenUp === true) continue;
    const candidates = offered.filter(
      ({ event }) => mayContain(segment, event) && !found.has(event.id),
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

function mayContain(segment: SegmentSummary, event: UsageEvent): boolean {
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

/** The stored event with an id, searched from the newest segment; undefined if there is none. */
export async function findEvent(id: string, view: StoreView): Promise<UsageEvent | undefined> {
  for (const segment of readableSegments(view).toReversed()) {
    const event = await useSegment(view, segment, async (database, where) => {
      const [number] = await database.getMany([idKey(id)]);
      return number === undefined
        ? undefined
        : await readEvent(database, where, decodeIdValue(number));
    });
    // The key of a foreign id is a hash of it, so compare the id of the event.
    if (event?.id === id) return event;
  }
  return undefined;
}

/** Window end of an event, RFC 3339; undefined if no segment has it. Rejects if unreadable. */
export async function windowEndAt(sequence: number, view: StoreView): Promise<string | undefined> {
  const read = async (database: Database, where: string): Promise<string> =>
    (await readEvent(database, where, sequence)).window_end;
  if (contains(view.segment, sequence)) return read(view.active, view.activeName);
  const segment = view.sealed.find((candidate) => contains(candidate, sequence));
  return segment === undefined ? undefined : view.pool.use(segment, read);
}

function contains(segment: SegmentSummary, sequence: number): boolean {
  return sequence >= segment.firstSequence && sequence <= segment.lastSequence;
}

/** All segments that can be read, the active one last. */
export function readableSegments(view: StoreView): readonly (SegmentSummary | SealedSegment)[] {
  return [...view.sealed.filter(({ givenUp }) => givenUp !== true), view.segment];
}
