import { type Decimal, signedFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';

/** Fields of an event that sums can be grouped by. Any other key is a dimension. */
export const GROUP_FIELDS = [
  'tenant',
  'sku',
  'region',
  'project',
  'resource_id',
  'source',
] as const;

/** Returns true when an item has exactly the requested values. */
export type EventFilter = (
  item: Pick<UsageEvent, 'tenant' | 'metric' | 'project' | 'region' | 'sku' | 'dimensions'>,
) => boolean;

/** One event, or the sum of events with equal identity whose windows start in the same period. */
export type UsageItem = Pick<
  UsageEvent,
  (typeof GROUP_FIELDS)[number] | 'metric' | 'unit' | 'quantity' | 'window_start' | 'dimensions'
> &
  Partial<Pick<UsageEvent, 'window_end'>>;

/** One row of the answer: its values in the order of the keys. The quantity is exact. */
export interface UsageRow {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  readonly quantity: Decimal;
  readonly events: number;
}

/** Accumulates items. */
export interface Summands {
  /** Returns false when the item needs one row too many; then nothing is added. */
  add(item: UsageItem, events?: number): boolean;
}

interface Sum {
  readonly keys: readonly string[];
  readonly metric: string;
  readonly unit: string;
  nanos: bigint;
  events: number;
}

/** Exact sums per group, metric and unit. Memory is bounded by the number of rows. */
export class UsageSums implements Summands {
  readonly #maxRows: number;
  readonly #readers: ReturnType<typeof createKeyReaders>;
  readonly #sums = new Map<string, Sum>();
  #events = 0;

  constructor(groupBy: readonly string[], maxRows: number) {
    this.#readers = createKeyReaders(groupBy);
    this.#maxRows = maxRows;
  }

  get events(): number {
    return this.#events;
  }

  add(item: UsageItem, events = 1): boolean {
    const keys = this.#readers.map((read) => read(item) ?? '');
    const { metric, unit } = item;
    const name = [...keys, metric, unit].join('\0');
    const sum = this.#sums.get(name) ?? { keys, metric, unit, nanos: 0n, events: 0 };
    if (!this.#sums.has(name)) {
      if (this.#sums.size >= this.#maxRows) return false;
      this.#sums.set(name, sum);
    }
    sum.nanos += nanosFromDecimal(item.quantity);
    sum.events += events;
    this.#events += events;
    return true;
  }

  /** Sorted by keys, then metric and unit. */
  rows(): readonly UsageRow[] {
    return [...this.#sums]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, { nanos, ...sum }]) => ({ ...sum, quantity: signedFromNanos(nanos) }));
  }
}

/** A reader for each key: returns an item's value, or undefined if it has none. */
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
