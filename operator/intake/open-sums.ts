import { decimalFromNanos } from '../model/decimal.ts';
import { EVENT_LIMITS } from '../model/event-schema.ts';
import { quote } from '../model/validate-event.ts';
import type { Window } from '../model/window.ts';
import type { EntryPart, RequestEntry, Series } from './entry.ts';

/** Most series of one tenant in one window; each becomes a usage event. */
export const MOST_SERIES = 1_000;

const MOST_NANOS = BigInt(EVENT_LIMITS.quantity) * 1_000_000_000n;

/** The usage of one series in one window. The same object until its window is closed. */
export interface SeriesSum extends Series {
  readonly region: string;
  readonly tenant: string;
  readonly window: Window;
  /** Billionths of the unit. */
  readonly nanos: bigint;
  /** The number and client of its first entry. */
  readonly first: number;
  readonly client: string;
}

type GrowingSum = { -readonly [Field in keyof SeriesSum]: SeriesSum[Field] };

/** Sums of entries by tenant, series and window. */
export class OpenSums {
  readonly #region: string;
  readonly #tenants = new Map<string, Map<string, GrowingSum>>();
  #size = 0;

  /** `region` is that of all events. */
  constructor(region: string) {
    this.#region = region;
  }

  /** The number of sums. */
  get size(): number {
    return this.#size;
  }

  add({ number, window, client, tenant, parts }: RequestEntry): void {
    const sums = this.#tenants.get(tenant) ?? new Map<string, GrowingSum>();
    this.#tenants.set(tenant, sums);
    for (const { metric, unit, dimensions, series, nanos } of parts) {
      const key = sumKey(window, series);
      const sum = sums.get(key);
      if (sum === undefined) {
        const region = this.#region;
        const fields = { metric, unit, dimensions, region, tenant, window, nanos };
        sums.set(key, { ...fields, first: number, client });
        this.#size += 1;
        continue;
      }
      sum.nanos += nanos;
      // The same after a restart, which reads the entries in another order.
      if (number < sum.first) Object.assign(sum, { first: number, client });
    }
  }

  /**
   * Why a tenant's part may not be added in a window; undefined if it may. `checkNew` returns the
   * problem of a series that has no sum yet.
   */
  problem(
    tenant: string,
    window: Window,
    part: EntryPart,
    checkNew: () => string | undefined,
  ): string | undefined {
    const sums = this.#tenants.get(tenant);
    const sum = sums?.get(sumKey(window, part.series));
    if ((sum?.nanos ?? 0n) + part.nanos > MOST_NANOS) {
      const quantity = quote(decimalFromNanos(part.nanos));
      return `sum larger than ${EVENT_LIMITS.quantity}: quantity of ${part.metric}: ${quantity}`;
    }
    if (sum !== undefined) return undefined;
    if (sums !== undefined && sums.size >= MOST_SERIES && inWindow(sums, window) >= MOST_SERIES) {
      return `more than ${MOST_SERIES} series in a window: tenant: ${quote(tenant)}: map fewer dimensions`;
    }
    return checkNew();
  }

  has(tenant: string): boolean {
    return this.#tenants.has(tenant);
  }

  of(tenant: string): readonly SeriesSum[] {
    return [...(this.#tenants.get(tenant)?.values() ?? [])];
  }

  all(): readonly SeriesSum[] {
    return [...this.#tenants.values()].flatMap((sums) => [...sums.values()]);
  }

  /** Counts the sums of tenants. */
  countOf(isCounted: (tenant: string) => boolean): number {
    const counted = [...this.#tenants].filter(([tenant]) => isCounted(tenant));
    return counted.reduce((count, [, sums]) => count + sums.size, 0);
  }

  /** Removes and returns the sums of windows that end at or before a time. */
  take(until: number): OpenSums {
    const taken = new OpenSums(this.#region);
    for (const [tenant, sums] of this.#tenants) {
      const ended = [...sums].filter(([, { window }]) => window.end <= until);
      if (ended.length === 0) continue;
      for (const [key] of ended) sums.delete(key);
      if (sums.size === 0) this.#tenants.delete(tenant);
      taken.#tenants.set(tenant, new Map(ended));
      taken.#size += ended.length;
    }
    this.#size -= taken.#size;
    return taken;
  }
}

function sumKey({ start, end }: Window, series: string): string {
  return `${start}-${end} ${series}`;
}

function inWindow(sums: ReadonlyMap<string, SeriesSum>, { start, end }: Window): number {
  const all = [...sums.values()];
  return all.filter(({ window }) => window.start === start && window.end === end).length;
}
