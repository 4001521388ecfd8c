import type { UsageEvent } from '../../model/event.ts';
import { readEvent } from './event-walk.ts';
import { type StoredEvents, useSegment } from './find-stored.ts';
import { decodeIdValue, idKey } from './keys.ts';
import { readableSegments } from './read-events.ts';

/** The stored event of an id, looked for in the newest segment first; undefined when there is none. */
export async function findEvent(id: string, places: StoredEvents): Promise<UsageEvent | undefined> {
  for (const segment of readableSegments(places).toReversed()) {
    const event = await useSegment(places, segment, async (database, where) => {
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
