import type { Clock } from '../../telemetry/clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DiscoveryView } from '../views.ts';

/**
 * Whether this operator measures the tenant or tenant cluster of an event itself. `not-known-yet`:
 * the tenant cluster may be newer than the last discovery pass.
 */
export type MeteredHere = (event: UsageEvent) => 'yes' | 'no' | 'not-known-yet';

/** How old the known set may be. */
const REFRESH_MS = 1000;

/** The longest delay until a watch reports a new tenant cluster. */
const WATCH_DELAY_MS = 10_000;

/**
 * Remembers the metered tenants and tenant clusters, for `memoryMs` also after they are gone: their
 * last windows may still be closed or backfilled. Clients must not push what the collector
 * measures. An unknown tenant counts as not metered only when discovery ran after the end of the
 * event's window: a later tenant cluster has no usage in it. Call the function once a request.
 */
export function createMeteredHere(
  discovery: DiscoveryView,
  clock: Clock,
  memoryMs: () => number,
): () => MeteredHere {
  const lastSeen = new Map<string, number>();
  let refreshedAt = Number.NEGATIVE_INFINITY;
  let lookedAt: number | undefined;
  const refresh = (now: number): void => {
    refreshedAt = now;
    lookedAt = discovery.lookedAt();
    for (const cluster of discovery.clusters()) {
      lastSeen.set(cluster.id, now);
      lastSeen.set(cluster.tenant, now);
    }
    for (const [id, at] of lastSeen) if (now - at > memoryMs()) lastSeen.delete(id);
  };
  return () => {
    const now = clock.monotonic();
    if (now - refreshedAt >= REFRESH_MS || discovery.lookedAt() !== lookedAt) refresh(now);
    const knownUntil = (lookedAt ?? Number.NEGATIVE_INFINITY) - WATCH_DELAY_MS;
    return (event) => {
      const ids = [event.tenant, event.resource_id, event.dimensions?.['tenant_cluster']];
      if (ids.some((id) => id !== undefined && lastSeen.has(id))) return 'yes';
      return Date.parse(event.window_end) <= knownUntil ? 'no' : 'not-known-yet';
    };
  };
}
