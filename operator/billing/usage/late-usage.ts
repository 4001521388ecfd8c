import { monthAfter, monthOf } from '../../model/periods.ts';
import { decodeSums } from './sum-rows.ts';
import type { StoredSums } from './sums-store.ts';
import type { UsageItem } from './usage-sums.ts';

/** Equal usage of one hour or day, and its number of events. */
export interface SummedUsage {
  readonly item: UsageItem;
  readonly events: number;
}

/** Usage that was summed after its month had closed. The first open month bills it. */
export class LateUsage {
  readonly #month: string;
  readonly #tenant: string | undefined;
  /** Usage of earlier months that the month bills, stored usage by hour. */
  readonly brought: SummedUsage[] = [];
  /** Usage of the month that `by`, a later one, bills. */
  readonly moved: (SummedUsage & { readonly by: string })[] = [];

  /** `tenant` is the only one of interest. */
  constructor(month: string, tenant?: string) {
    this.#month = month;
    this.#tenant = tenant;
  }

  /** Adds usage that a month bills, if it concerns this month. */
  add(by: string, usage: SummedUsage): void {
    const { tenant, window_start: start } = usage.item;
    if (this.#tenant !== undefined && tenant !== this.#tenant) return;
    if (by === this.#month) this.brought.push(usage);
    else if (monthOf(start) === this.#month) this.moved.push({ ...usage, by });
  }

  /** Adds what is stored. Returns the first open month; undefined before a month was closed. */
  async addStored(found: StoredSums): Promise<string | undefined> {
    const closed = await found.closed();
    if (closed === undefined) return undefined;
    const open = monthAfter(closed);
    const month = this.#month;
    for (let by = month; by <= open; by = monthAfter(by)) {
      for await (const [hour, owner, text] of found.late(by, by === month ? '' : month)) {
        for (const usage of decodeSums(owner, hour, text)) this.add(by, usage);
      }
    }
    return open;
  }
}
