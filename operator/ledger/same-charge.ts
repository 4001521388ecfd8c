import { sortedEntries } from '../model/bytewise.ts';
import type { UsageEvent } from '../model/event.ts';

/**
 * Whether two events with the same id have equal quantity and identity. An equal repeat is a
 * duplicate, any other a conflict: the first write wins (docs/reference/events.md#ids).
 */
export function sameCharge(a: UsageEvent, b: UsageEvent): boolean {
  return (
    a.quantity === b.quantity &&
    a.tenant === b.tenant &&
    a.metric === b.metric &&
    a.window_start === b.window_start &&
    a.window_end === b.window_end &&
    a.region === b.region &&
    a.project === b.project &&
    a.sku === b.sku &&
    a.resource_id === b.resource_id &&
    sameDimensions(a.dimensions ?? {}, b.dimensions ?? {})
  );
}

function sameDimensions(
  a: Readonly<Record<string, string>>,
  b: Readonly<Record<string, string>>,
): boolean {
  const entriesOfB = sortedEntries(b);
  const entriesOfA = sortedEntries(a);
  return (
    entriesOfA.length === entriesOfB.length &&
    entriesOfA.every(([key, value], index) => {
      const other = entriesOfB[index];
      return other !== undefined && other[0] === key && other[1] === value;
    })
  );
}
