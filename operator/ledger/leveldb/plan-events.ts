import { batchMarkOperation } from './batch-marks.ts';
import { nextChain } from './chain.ts';
import type { Operation } from './database.ts';
import { encodeStoredEvents } from './event-walk.ts';
import { parseInstant } from './instants.ts';
import type { OfferedEvent, StoredEvents } from './find-stored.ts';
import { encodeIdValue, isDerivedId, KEY_SPACE, numberKey } from './keys.ts';
import type { SegmentSummary, TimeRange } from './state.ts';

/** The operations that store events at the end of a segment, and the segment's summary after them. Their ids enter the filter. */
export function planEvents(
  accepted: readonly OfferedEvent[],
  before: SegmentSummary,
  { deduplicate, ids }: Pick<StoredEvents, 'deduplicate' | 'ids'>,
  now: number,
): { readonly operations: readonly Operation[]; readonly segment: SegmentSummary } {
  const operations: Operation[] = [];
  if (accepted.length === 0) return { operations, segment: before };
  const first = before.lastSequence + 1;
  const texts = accepted.map(({ text }) => text);
  const { values, bytes } = encodeStoredEvents(first, texts);
  let { starts, ends, foreignIds } = before;
  for (const [index, value] of values.entries()) {
    const sequence = first + index;
    operations.push({ type: 'put', key: numberKey(KEY_SPACE.event, sequence), value });
    const offer = accepted[index];
    if (offer === undefined) continue;
    const { event, key } = offer;
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
  const chain = nextChain(before.chain).update(bytes).digest('hex');
  operations.push(batchMarkOperation({ lastSequence, appendedAt: now, chain }));
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

/** The range that also covers a time. */
function widen(range: TimeRange | undefined, time: number): TimeRange {
  if (range === undefined) return { from: time, to: time };
  if (time < range.from) return { ...range, from: time };
  return time > range.to ? { ...range, to: time } : range;
}
