import { sortedEntries } from '../../model/bytewise.ts';
import { nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import { PERIOD_MS, type PeriodKind, periodOf, periodStart } from '../../model/periods.ts';
import type { TimeRange } from '../../model/window.ts';
import type { Summands, UsageItem } from '../usage/usage-sums.ts';
import type { SummedUsage } from '../usage/late-usage.ts';

/**
 * Adds all usage of a range to sums. Throws where some of it is unknown. `hourly` is false if the
 * hour of the day does not matter.
 */
export type AddUsage = (sums: Summands, range: TimeRange, hourly: boolean) => Promise<void>;

/** Leaves usage out of what `add` adds. */
export function without(left: readonly SummedUsage[], add: AddUsage): AddUsage {
  return async (sums, range, hourly) => {
    await add(sums, range, hourly);
    for (const { item, events } of left) {
      const start = Date.parse(item.window_start);
      if (start < range.from || start >= range.to) continue;
      sums.add({ ...item, quantity: signedFromNanos(-nanosFromDecimal(item.quantity)) }, -events);
    }
  };
}

/** How much usage is read at a time, which bounds memory. */
const STEP_MS: Readonly<Record<PeriodKind, number>> = {
  hour: 3 * PERIOD_MS.hour,
  day: PERIOD_MS.day,
};

/** The usage of a range in time order, one item for each identity and hour or day. */
export async function* usageInOrder(
  add: AddUsage,
  { from, to }: TimeRange,
  grain: PeriodKind,
): AsyncGenerator<SummedUsage> {
  for (let start = from; start < to; start += STEP_MS[grain]) {
    const sums = new PeriodSums(grain);
    await add(sums, { from: start, to: Math.min(to, start + STEP_MS[grain]) }, grain === 'hour');
    yield* sums.inOrder();
  }
}

/** The identity of an item with its hour or day, as a text that equal usage shares. */
export function usageKey(item: UsageItem): string {
  const { window_start: start, tenant, metric, unit, region, project, sku } = item;
  const dimensions = sortedEntries(item.dimensions ?? {});
  const fields = [start, tenant, metric, unit, region, project, sku, item.resource_id, item.source];
  return JSON.stringify([...fields.map((field) => field ?? null), dimensions]);
}

/** Sums of equal usage by hour or day. */
export class PeriodSums implements Summands {
  readonly #grain: PeriodKind;
  readonly #sums = new Map<string, { readonly item: UsageItem; nanos: bigint; events: number }>();

  constructor(grain: PeriodKind) {
    this.#grain = grain;
  }

  add(added: UsageItem, events = 1): boolean {
    const start = periodStart(periodOf(this.#grain, added.window_start));
    const item = { ...added, window_start: start };
    const key = usageKey(item);
    const sum = this.#sums.get(key) ?? { item, nanos: 0n, events: 0 };
    this.#sums.set(key, sum);
    sum.nanos += nanosFromDecimal(added.quantity);
    sum.events += events;
    return true;
  }

  *inOrder(): Generator<SummedUsage> {
    const sorted = [...this.#sums].toSorted(([a], [b]) => (a < b ? -1 : 1));
    for (const [, { item, nanos, events }] of sorted) {
      if (events > 0) yield { item: { ...item, quantity: signedFromNanos(nanos) }, events };
    }
  }
}
