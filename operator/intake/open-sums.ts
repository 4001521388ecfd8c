import { nanosFromDecimal } from '../model/decimal.ts';
import { EVENT_LIMITS } from '../model/event-schema.ts';
import { quote } from '../model/validate-event.ts';
import type { Window } from '../model/window.ts';
import { type RequestEntry, type EntryPart, seriesOf } from './entry.ts';

/** Most series of one tenant in one window; each becomes a usage event. */
export const MOST_SERIES = 1_000;

const MOST_NANOS = BigInt(EVENT_LIMITS.quantity) * 1_000_000_000n;

/** The usage of one series in one window. */
export interface SeriesSum extends Omit<EntryPart, 'quantity'> {
  readonly tenant: string;
  readonly window: Window;
  /** Billionths of the unit. */
  readonly nanos: bigint;
  /** The number and client of its first entry. */
  readonly first: number;
  readonly client: string;
}

/** Sums of entries by tenant, series and window. */
export class OpenSums {
  readonly #tenants = new Map<string, Map<string, SeriesSum>>();
  #size = 0;

  /** The number of sums. */
  get size(): number {
    return this.#size;
  }

  add({ number, window, client, tenant, parts }: RequestEntry): void {
    const sums = this.#tenants.get(tenant) ?? new Map<string, SeriesSum>();
    this.#tenants.set(tenant, sums);
    for (const { quantity, ...part } of parts) {
      const key = sumKey(window, part);
      const sum = sums.get(key);
      if (sum === undefined) this.#size += 1;
      const nanos = (sum?.nanos ?? 0n) + nanosFromDecimal(quantity);
      // The same after a restart, which reads the entries in another order.
      const { first, client: sender } =
        sum !== undefined && sum.first < number ? sum : { first: number, client };
      sums.set(key, { ...part, tenant, window, nanos, first, client: sender });
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
    const sum = sums?.get(sumKey(window, part));
    if ((sum?.nanos ?? 0n) + nanosFromDecimal(part.quantity) > MOST_NANOS) {
      return `sum larger than ${EVENT_LIMITS.quantity}: quantity of ${part.metric}: ${quote(part.quantity)}`;
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
    const taken = new OpenSums();
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

function sumKey({ start, end }: Window, part: Pick<EntryPart, 'metric' | 'dimensions'>): string {
  return `${start}-${end} ${seriesOf(part)}`;
}

function inWindow(sums: ReadonlyMap<string, SeriesSum>, { start, end }: Window): number {
  const all = [...sums.values()];
  return all.filter(({ window }) => window.start === start && window.end === end).length;
}
