import type { Clock } from '../../telemetry/clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { DiscoveryView } from '../views.ts';

/**
 * Whether an event is about a tenant or tenant cluster that this operator measures itself. Not known yet:
 * the tenant cluster may be so new that nobody has looked since.
 */
export type MeteredHere = (event: UsageEvent) => 'yes' | 'no' | 'not-known-yet';

/** How old the known set may be. */
const REFRESH_MS = 1000;

/** How long it may take until a watch has brought a new tenant cluster. */
const WATCH_DELAY_MS = 10_000;

/**
 * Remembers who is metered here, also for `memoryMs` after they are gone, because their last windows
 * may still be closed or backfilled. Nobody may write what the collector is going to measure, so a
 * stranger is known to be one only when discovery has looked after the end of the event's window: a
 * tenant cluster that came later has no usage in it. Ask once a request.
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
