import type { Window } from '../model/window.ts';
import type { Settled } from './credits.ts';
import type { TenantEvidence } from './evidence-changes.ts';
import { TenantLog } from './tenant-log.ts';

/** What the events of one closing of a window are made of. */
export interface ClosedCharges {
  readonly window: Window;
  /** Milliseconds since the epoch. */
  readonly closedAt: number;
  readonly sources: readonly Settled[];
}

/**
 * Finds out what is new about the charges of a window: an object that goes on as it was in the window
 * before costs nothing (docs/metering.md#what-stands-behind-a-number).
 */
export class EvidenceLog {
  readonly #tenants = new Map<string, TenantLog>();

  /** What each tenant's charges came to; made when it is asked for, since all at once are many. */
  *close({ window, closedAt, sources }: ClosedCharges): Generator<TenantEvidence> {
    for (const [tenant, log] of this.#tenants) {
      if (log.isOld(closedAt, window)) this.#tenants.delete(tenant);
    }
    const byTenant = Map.groupBy(sources, ({ charge }) => charge.identity.tenant);
    for (const [tenant, settled] of byTenant) {
      const log = this.#tenants.get(tenant) ?? new TenantLog();
      this.#tenants.set(tenant, log);
      yield { tenant, ...log.close(settled, window, closedAt) };
    }
  }

  /** Frees what is known of a tenant; it begins anew when it is seen again. */
  forget(tenant: string): void {
    this.#tenants.delete(tenant);
  }
}
