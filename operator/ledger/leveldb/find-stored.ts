import { EVENT_ID_PREFIX } from '../../usage/event-id.ts';
import type { UsageEvent } from '../../usage/event.ts';
import type { Database } from './database.ts';
import { readEvent } from './event-walk.ts';
import { damage } from './failures.ts';
import { idKey } from './keys.ts';
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

/** Whether an id is derived from the event and thus tells its window. */
export function isDerivedId(id: string): boolean {
  return id.startsWith(EVENT_ID_PREFIX);
}

/**
 * The stored events that have the ids of these events, by id. Looks in the active segment and in
 * those sealed ones that can hold them (docs/ledger-format.md, "A write").
 */
export async function findStored(
  events: readonly UsageEvent[],
  places: StoredEvents,
): Promise<ReadonlyMap<string, UsageEvent>> {
  const found = new Map<string, UsageEvent>();
  if (!places.deduplicate) return found;
  await lookUp(events, places.active, places.activeName, found);
  for (const segment of places.sealed.toReversed()) {
    const candidates = events.filter((event) => !found.has(event.id) && mayHold(segment, event));
    if (candidates.length === 0) continue;
    await places.pool.use(segment, (database, where) => lookUp(candidates, database, where, found));
  }
  return found;
}

function mayHold(segment: SealedSegment, event: UsageEvent): boolean {
  if (!isDerivedId(event.id)) return segment.foreignIds;
  const { ends } = segment;
  const end = Date.parse(event.window_end);
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
    found.set(event.id, await readById(database, where, event.id, number.readUIntBE(2, 6)));
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
