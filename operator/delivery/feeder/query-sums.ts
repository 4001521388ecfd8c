import type { UsageEvent } from '../../model/event.ts';
import type { QuerySums } from '../lanes/arrival-check.ts';
import { isDrift, type Reconcile } from '../operations/reconcile.ts';

const DAY_MS = 86_400_000;
/** What was sent last is what a billing system may not have added up yet. */
const RECENT_MS = 10 * 60_000;

/**
 * Asks a destination by its sums of the day whether it has added up what it took of tenants before changes of their
 * plans. Returns the tenants whose sums agree; the ledger is read once for all that change on one day.
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
