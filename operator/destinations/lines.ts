import type { UsageEvent } from '../model/event.ts';
import type { DeliveryOutcome } from './destination.ts';

/**
 * Distributes items over at most `count` parallel lines, each group to the shortest line. All items
 * of a key stay in one line and in order, so that events of a tenant do not overtake each other.
 */
export function dealLines<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  count: number,
): readonly (readonly T[])[] {
  const lines: T[][] = Array.from({ length: Math.max(1, count) }, () => []);
  for (const group of Map.groupBy(items, keyOf).values()) {
    const shortest = lines.reduce((a, b) => (b.length < a.length ? b : a));
    for (const one of group) shortest.push(one);
  }
  return lines.filter((line) => line.length > 0);
}

/** The payload of the event at a position of its batch. */
export interface LineItem<Payload> {
  readonly index: number;
  readonly payload: Payload;
}

/** Sends a batch over parallel lines of calls; `outcomes[i]` belongs to `events[i]`. */
export async function sendInLines<Payload extends object>(
  events: readonly UsageEvent[],
  options: {
    /** Returns the outcome of an event that is not sent, or the payload to send, without `kind`. */
    readonly check: (event: UsageEvent) => DeliveryOutcome | Payload;
    readonly keyOf: (payload: Payload) => string;
    /** Returns the number of lines for a number of payloads. */
    readonly lineCount: (payloads: number) => number;
    /** Sends the items of a line in order. Items without an outcome were not sent. */
    readonly sendLine: (
      line: readonly LineItem<Payload>[],
      outcomes: Map<number, DeliveryOutcome>,
    ) => Promise<void>;
  },
): Promise<readonly DeliveryOutcome[]> {
  const { check, keyOf, lineCount, sendLine } = options;
  const outcomes = new Map<number, DeliveryOutcome>();
  const items: LineItem<Payload>[] = [];
  for (const [index, event] of events.entries()) {
    const checked = check(event);
    if ('kind' in checked) outcomes.set(index, checked);
    else items.push({ index, payload: checked });
  }
  const lines = dealLines(items, ({ payload }) => keyOf(payload), lineCount(items.length));
  await Promise.all(lines.map((line) => sendLine(line, outcomes)));
  return events.map((_, index) => outcomes.get(index) ?? { kind: 'retry', reason: 'not sent' });
}
