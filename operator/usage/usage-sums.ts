import { type Decimal, signedFromNanos, nanosFromDecimal } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';

/** Fields of an event that sums can be grouped by; any other key is a dimension. */
export const GROUP_FIELDS = [
  'tenant',
  'sku',
  'region',
  'project',
  'resource_id',
  'source',
] as const;

/** Milliseconds since the epoch, `from` inclusive, `to` exclusive. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** Whether an item has exactly the values that are asked for. */
export type EventFilter = (
  item: Pick<UsageEvent, 'tenant' | 'metric' | 'project' | 'region' | 'sku' | 'dimensions'>,
) => boolean;

/** One event, or the sum of several of equal identity whose windows start in the same period. */
export type UsageItem = Pick<
  UsageEvent,
  (typeof GROUP_FIELDS)[number] | 'metric' | 'unit' | 'quantity' | 'window_start' | 'dimensions'
>;

/** One row of the answer: its values in the order of the keys. The quantity is exact. */
export interface UsageRow {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  readonly quantity: Decimal;
  readonly events: number;
}

/** Where items are added up. */
export interface Summands {
  /** False when the item would open one row too many; nothing is added then. */
  add(item: UsageItem, events?: number): boolean;
}

/** Exact sums per group, metric and unit, in memory that is bounded by the number of rows. */
export interface UsageSums extends Summands {
  /** Sorted by keys, then metric and unit. */
  rows(): readonly UsageRow[];
  readonly events: number;
}

interface Sum {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  nanos: bigint;
  events: number;
}

export function createUsageSums(groupBy: readonly string[], maxRows: number): UsageSums {
  const sums = new Map<string, Sum>();
  const readers = createKeyReaders(groupBy);
  let total = 0;
  return {
    add: (item, events = 1) => {
      const keys = readers.map((read) => read(item) ?? '');
      const name = [...keys, item.metric, item.unit].join('\0');
      const nanos = nanosFromDecimal(item.quantity);
      const sum = sums.get(name);
      if (sum === undefined && sums.size >= maxRows) return false;
      total += events;
      if (sum === undefined) {
        sums.set(name, { keys, metric: item.metric, unit: item.unit, nanos, events });
        return true;
      }
      sum.nanos += nanos;
      sum.events += events;
      return true;
    },
    rows: () =>
      [...sums.entries()]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, { nanos, ...sum }]) => ({ ...sum, quantity: signedFromNanos(nanos) })),
    get events() {
      return total;
    },
  };
}

/** What gives an item's value of each key; undefined where it has none. */
export function createKeyReaders(
  groupBy: readonly string[],
): readonly ((item: UsageItem) => string | undefined)[] {
  return groupBy.map(reader);
}

function reader(key: string): (item: UsageItem) => string | undefined {
  if (key === 'window') return ({ window_start: start }) => start;
  if (key === 'day') return ({ window_start: start }) => start.slice(0, 10);
  if (key === 'hour') return ({ window_start: start }) => `${start.slice(0, 13)}:00Z`;
  const field = GROUP_FIELDS.find((candidate) => candidate === key);
  if (field !== undefined) return (item) => item[field];
  return (item) => item.dimensions?.[key];
}
