import type { StoredEvent } from '../../ledger/ledger.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { OngoingUsage } from './account.ts';

/** A tenant's usage of a metric in one window, as far as its events were added. */
interface ReadWindow {
  readonly since: number;
  readonly windowMs: number;
  readonly usage: OngoingUsage[];
}

/**
 * Each tenant's usage in its newest closed window, by metric. The next window is expected to use as
 * much (docs/how-to/budgets.md#between-two-windows). Metrics are separate, because their windows
 * may close at different times.
 */
export class NewestWindows {
  /** By tenant and metric. */
  readonly #windows = new Map<string, Map<string, ReadWindow>>();
  /** The sequence number of the last event that was added. */
  #position = 0;

  /**
   * Adds an event of the ledger. Ignores:
   * 1. Pushed usage and corrections: nobody knows whether they go on.
   * 2. Events of an older window, such as of an API that could not be read in time.
   * 3. Events that carry usage of earlier windows, because the amount is not that of one window.
   * 4. Events that were added before.
   */
  add({ sequence, event }: StoredEvent): void {
    if (sequence <= this.#position) return;
    this.#position = sequence;
    if (event.source !== 'collector') return;
    const since = Date.parse(event.window_end);
    const { tenant, metric } = event;
    const windows = this.#windows.get(tenant) ?? new Map<string, ReadWindow>();
    this.#windows.set(tenant, windows);
    const known = windows.get(metric);
    if (known !== undefined && since < known.since) return;
    const windowMs = since - Date.parse(event.window_start);
    const window = known?.since === since ? known : { since, windowMs, usage: [] };
    windows.set(metric, window);
    const carried = event.properties?.['carried_seconds'];
    if (typeof carried === 'number' && carried > 0) return;
    const nanos = nanosFromDecimal(event.quantity);
    window.usage.push({ since, windowMs, nanos, usage: event });
  }

  /**
   * Drops windows that end before `end`: usage without a newer window is expected to stop. Returns
   * the tenants that lost windows.
   */
  closed(end: number): readonly string[] {
    return [...this.#windows].flatMap(([tenant, windows]) => {
      const before = windows.size;
      for (const [metric, { since }] of windows) if (since < end) windows.delete(metric);
      if (windows.size === 0) this.#windows.delete(tenant);
      return windows.size < before ? [tenant] : [];
    });
  }

  of(tenant: string): readonly OngoingUsage[] {
    return [...(this.#windows.get(tenant)?.values() ?? [])].flatMap(({ usage }) => usage);
  }
}
