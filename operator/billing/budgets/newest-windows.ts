import type { StoredEvent } from '../../ledger/ledger.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { OngoingUsage } from './account.ts';

/** What a tenant used of a metric in one window, as far as it is read. */
interface ReadWindow {
  readonly since: number;
  readonly windowMs: number;
  readonly usage: OngoingUsage[];
}

/**
 * What each tenant used in its newest closed window, metric by metric: it is expected to use as much in the next one
 * (docs/how-to/budgets.md#between-two-windows). Metrics are apart, since their objects may be watched apart, and closed later.
 */
export class NewestWindows {
  /** By tenant and metric. */
  readonly #windows = new Map<string, Map<string, ReadWindow>>();
  /** The last event that was added. */
  #position = 0;

  /**
   * Adds an event of the ledger. Passed over:
   * 1. what was pushed in, and corrections: nobody knows whether it goes on;
   * 2. an event of an older window, such as of an API that could not be read in time;
   * 3. an event that has usage of windows before it, which is more than the window came to;
   * 4. what was added before.
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
   * Forgets windows that end before then: what is not used in a newer one is expected not to go on. Returns the tenants
   * whose windows it forgets.
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
