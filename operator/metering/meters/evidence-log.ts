import { hash } from 'node:crypto';
import type { Window } from '../../model/window.ts';
import type { Settled } from './reversals.ts';
import type { TenantEvidence } from './evidence-changes.ts';
import { TenantLog } from './tenant-log.ts';

/** What the events of one closing of a window are made of. */
export interface ClosedCharges {
  readonly window: Window;
  /** What its events have as `recorded_at`, milliseconds since the epoch; a window whose scopes are closed apart is closed several times. */
  readonly closedAt: number;
  readonly sources: readonly Settled[];
}

const HOUR_SECONDS = 3_600;

/** A log that was not used for so long, and for two windows, is forgotten. */
const UNUSED_MS = 10 * 60_000;

/**
 * The start of the hour of a tenant in which a window starts, milliseconds since the epoch. Tenants have hours of their
 * own, because the first window of an hour lists everything: not all tenants in the same window.
 */
export function evidenceHour(tenant: string, windowStart: number): number {
  const offset = hash('sha1', tenant, 'buffer').readUInt32BE() % HOUR_SECONDS;
  const seconds = Math.floor(windowStart / 1000) - offset;
  return (seconds - (seconds % HOUR_SECONDS) + offset) * 1000;
}

/**
 * Finds what is new about the charges of a window: an object that goes on as it was in the window
 * before costs nothing (docs/explanation/metering.md#what-stands-behind-a-number). Each hour of a tenant begins with everything.
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

  /** What each tenant's charges came to; made one by one, since all at once are many. */
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

  /** Frees what is known of a tenant in an hour; it begins with everything when it is seen again. */
  forget({ tenant, hour }: Pick<TenantEvidence, 'tenant' | 'hour'>): void {
    this.#hours.delete(keyOf(tenant, hour));
  }
}

function keyOf(tenant: string, hour: number): string {
  return `${hour}/${tenant}`;
}
