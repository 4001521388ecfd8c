import type { UsageEvent } from '../../model/event.ts';
import type { QuerySums } from '../lanes/arrival-check.ts';
import { isDrift, type Reconcile } from '../operations/reconcile.ts';

const DAY_MS = 86_400_000;
/** A billing system may not have added up the usage of the last ten minutes yet. */
const RECENT_MS = 10 * 60_000;

/**
 * Creates a query for tenants before changes of their plans: has the destination added up their
 * usage? Returns the tenants whose sums of the day agree. The ledger is read once for all changes
 * of one day.
 */
export function querySums(reconcile: Reconcile): QuerySums {
  return async (requested, signal) => {
    const days = Map.groupBy(requested, ([, before]) =>
      [Math.floor((before - RECENT_MS) / DAY_MS), Math.ceil((before + 1) / DAY_MS)].join(' '),
    );
    const arrived = new Set<string>();
    for (const [day, tenants] of days) {
      const [from = 0, to = 0] = day.split(' ').map((number) => Number(number) * DAY_MS);
      const wanted = new Set(tenants.map(([tenant]) => tenant));
      const [only] = wanted;
      const whose =
        wanted.size === 1
          ? { tenant: only }
          : { selects: ({ tenant }: UsageEvent) => wanted.has(tenant), questions: Infinity };
      const outcome = await reconcile({ from, to, ...whose }, signal);
      if (outcome.kind === 'failed') continue;
      const lacking = outcome.rows.filter(
        ({ delivered, difference = '0' }) =>
          difference.startsWith('-') && isDrift(delivered, difference),
      );
      const missing = new Set(lacking.map(({ tenant }) => tenant));
      for (const tenant of wanted) if (!missing.has(tenant)) arrived.add(tenant);
    }
    return arrived;
  };
}
