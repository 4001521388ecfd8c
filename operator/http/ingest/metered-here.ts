import type { Clock } from '../../telemetry/clock.ts';
import type { UsageEvent } from '../../usage/event.ts';
import type { DiscoveryView } from '../views.ts';

/** Whether an event is about a tenant or tenant cluster that this operator measures itself. */
export type MeteredHere = (event: UsageEvent) => boolean;

/** How old the known set may be. */
const REFRESH_MS = 1000;

/**
 * Remembers who is metered here, also for `memoryMs` after they are gone, because their last windows
 * may still be closed or backfilled. Ask once a request.
 */
export function createMeteredHere(
  discovery: DiscoveryView,
  clock: Clock,
  memoryMs: () => number,
): () => MeteredHere {
  const lastSeen = new Map<string, number>();
  let refreshedAt = Number.NEGATIVE_INFINITY;
  const refresh = (now: number): void => {
    refreshedAt = now;
    for (const cluster of discovery.clusters()) {
      lastSeen.set(cluster.id, now);
      lastSeen.set(cluster.tenant, now);
    }
    for (const [id, at] of lastSeen) if (now - at > memoryMs()) lastSeen.delete(id);
  };
  return () => {
    const now = clock.monotonic();
    if (now - refreshedAt >= REFRESH_MS) refresh(now);
    return (event) =>
      [event.tenant, event.resource_id, event.dimensions?.['tenant_cluster']].some(
        (id) => id !== undefined && lastSeen.has(id),
      );
  };
}
