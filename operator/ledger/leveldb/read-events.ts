import { LedgerReadError, type ReadOutcome, type StoredEvent } from '../ledger.ts';
import { decodeStoredEvent, walkEvents } from './event-walk.ts';
import { type StoredEvents, useSegment } from './find-stored.ts';
import { parseInstant } from './instants.ts';
import { toLedgerFailure } from './failures.ts';
import type { SealedSegment, SegmentSummary } from './state.ts';

const MAX_PAGE_EVENTS = 5_000;

/** A page after a sequence number; it ends at the end of a segment. */
export async function readPage(
  places: StoredEvents,
  afterSequence: number,
  limit: number,
): Promise<ReadOutcome> {
  const segment = readableSegments(places).find(
    (candidate) => candidate.lastSequence > afterSequence,
  );
  if (segment === undefined) return { kind: 'page', events: [], lastSequence: afterSequence };
  const first = Math.max(afterSequence + 1, segment.firstSequence);
  const last = Math.min(segment.lastSequence, first + Math.min(limit, MAX_PAGE_EVENTS) - 1);
  const events: StoredEvent[] = [];
  try {
    await useSegment(places, segment, async (database, where) => {
      for await (const entries of walkEvents(database, where, first, last)) {
        for (const entry of entries) {
          events.push({ sequence: entry.sequence, event: decodeStoredEvent(entry) });
        }
      }
    });
  } catch (error) {
    return toLedgerFailure(`reading after ${afterSequence}`, error);
  }
  return { kind: 'page', events, lastSequence: last };
}

/** Events whose window starts in `[from, to)`; segments without any are not opened. */
export async function* scanEvents(
  places: () => StoredEvents,
  from: number,
  to: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredEvent, void, void> {
  let after = 0;
  for (;;) {
    signal?.throwIfAborted();
    const segment = readableSegments(places()).find(
      ({ lastSequence, starts }) =>
        lastSequence > after && starts !== undefined && starts.from < to && starts.to >= from,
    );
    if (segment === undefined) return;
    const page = await readPage(
      places(),
      Math.max(after, segment.firstSequence - 1),
      MAX_PAGE_EVENTS,
    );
    if (page.kind === 'failed') throw new LedgerReadError(page);
    for (const stored of page.events) {
      const start = parseInstant(stored.event.window_start);
      if (start >= from && start < to) yield stored;
    }
    after = page.lastSequence;
  }
}

/** All segments that can be read, the active one last. */
export function readableSegments(
  places: StoredEvents,
): readonly (SegmentSummary | SealedSegment)[] {
  return [...places.sealed.filter(({ givenUp }) => givenUp !== true), places.segment];
}
