import type { UsageEvent } from '../../usage/event.ts';
import type { Database } from './database.ts';
import { readEvent } from './event-walk.ts';
import { parseInstant } from './instants.ts';
import { damage } from './failures.ts';
import { decodeIdValue, idKey, isDerivedId } from './keys.ts';
import type { SegmentPool } from './segment-pool.ts';
import type { SealedSegment, SegmentSummary } from './state.ts';

/** Where stored events may be found. */
export interface StoredEvents {
  readonly active: Database;
  readonly activeName: string;
  readonly segment: SegmentSummary;
  readonly sealed: readonly SealedSegment[];
  readonly pool: SegmentPool;
  /** Off for measuring what deduplication costs. */
  readonly deduplicate: boolean;
}

/**
 * The stored events that have the ids of these events, by id. Looks only into segments that can hold
 * them (docs/ledger-format.md, "A write"): an event of a window that is newer than all is not looked for.
 */
export async function findStored(
  events: readonly UsageEvent[],
  places: StoredEvents,
): Promise<ReadonlyMap<string, UsageEvent>> {
  const found = new Map<string, UsageEvent>();
  if (!places.deduplicate) return found;
  for (const segment of [places.segment, ...places.sealed.toReversed()]) {
    const candidates = events.filter((event) => !found.has(event.id) && mayHold(segment, event));
    if (candidates.length === 0) continue;
    await useSegment(places, segment, (database, where) =>
      lookUp(candidates, database, where, found),
    );
  }
  return found;
}

/** Runs `work` with the database of a segment, sealed or active. */
export async function useSegment<T>(
  places: StoredEvents,
  segment: SegmentSummary | SealedSegment,
  work: (database: Database, where: string) => Promise<T>,
): Promise<T> {
  if ('sealedAt' in segment) return places.pool.use(segment, work);
  return work(places.active, places.activeName);
}

function mayHold(segment: SegmentSummary, event: UsageEvent): boolean {
  if (!isDerivedId(event.id)) return segment.foreignIds;
  const { ends } = segment;
  const end = parseInstant(event.window_end);
  return ends !== undefined && end >= ends.from && end <= ends.to;
}

async function lookUp(
  events: readonly UsageEvent[],
  database: Database,
  where: string,
  found: Map<string, UsageEvent>,
): Promise<void> {
  const numbers = await database.getMany(events.map((event) => idKey(event.id)));
  for (const [index, number] of numbers.entries()) {
    const event = events[index];
    if (number === undefined || event === undefined) continue;
    found.set(event.id, await readById(database, where, event.id, decodeIdValue(number)));
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
