import { hash } from 'node:crypto';
import type { Window } from '../../model/window.ts';
import type { Settled } from './reversals.ts';
import type { TenantEvidence } from './evidence-changes.ts';
import { TenantLog } from './tenant-log.ts';

/** The settled charges of one closing of a window. */
export interface ClosedCharges {
  readonly window: Window;
  /**
   * `recorded_at` of its events, milliseconds since the epoch. A window whose scopes are closed
   * separately is closed several times.
   */
  readonly closedAt: number;
  readonly sources: readonly Settled[];
}

const HOUR_SECONDS = 3_600;

/** A log that was not used for this long plus two windows is forgotten. */
const UNUSED_MS = 10 * 60_000;

/**
 * Returns the start of the tenant's hour that contains a window's start, milliseconds since the
 * epoch. Each tenant's hours start at another second: the first window of an hour lists everything,
 * which should not happen for all tenants at once.
 */
export function evidenceHour(tenant: string, windowStart: number): number {
  const offset = hash('sha1', tenant, 'buffer').readUInt32BE() % HOUR_SECONDS;
  const seconds = Math.floor(windowStart / 1000) - offset;
  return (seconds - (seconds % HOUR_SECONDS) + offset) * 1000;
}

/**
 * Finds what is new about the charges of a window
 * (docs/explanation/metering.md#what-stands-behind-a-number). An object without a change costs
 * nothing. Each hour of a tenant begins with everything.
 */
export class EvidenceLog {
  readonly #hours = new Map<
    string,
    {
      readonly log: TenantLog;
      /** When its last window was closed, milliseconds since the epoch. */
      usedAt: number;
    }
  >();

  /** Yields the evidence of each tenant; one at a time, because all together are large. */
  *close({ window, closedAt, sources }: ClosedCharges): Generator<TenantEvidence> {
    const unusedMs = UNUSED_MS + 2 * (window.end - window.start);
    for (const [key, { usedAt }] of this.#hours) {
      if (closedAt - usedAt > unusedMs) this.#hours.delete(key);
    }
    const byTenant = Map.groupBy(sources, ({ charge }) => charge.identity.tenant);
    for (const [tenant, settled] of byTenant) {
      const hour = evidenceHour(tenant, window.start);
      const known = this.#hours.get(keyOf(tenant, hour)) ?? { log: new TenantLog(), usedAt: 0 };
      this.#hours.set(keyOf(tenant, hour), known);
      known.usedAt = closedAt;
      yield { tenant, hour, ...known.log.close(settled, window) };
    }
  }

  /** Forgets a tenant's hour; its next closing lists everything again. */
  forget({ tenant, hour }: Pick<TenantEvidence, 'tenant' | 'hour'>): void {
    this.#hours.delete(keyOf(tenant, hour));
  }
}

function keyOf(tenant: string, hour: number): string {
  return `${hour}/${tenant}`;
}
