import type { SettingsStore } from '../config/settings.ts';
import type { Discovery } from '../discovery/discovery.ts';
import { namespacesOf } from '../discovery/tenant-cluster.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { least } from '../model/extremes.ts';
import { pricesInForce } from '../usage/prices-in-force.ts';
import type { TimeRange } from '../usage/usage-sums.ts';
import type { UsageTotals } from '../usage/usage-totals.ts';
import { BudgetAccount } from './account.ts';
import { budgetsOf, type GivenBudget } from './budget-of.ts';
import { monthOf, nextDay, periodAt } from './period.ts';

export interface AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'records'>;
  /** Undefined while they are not open. */
  readonly totals: () => Pick<UsageTotals, 'addTo'> | undefined;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly discovery: Pick<Discovery, 'clusters' | 'tenants'>;
  readonly isCharged: (metric: string) => boolean;
}

/** A tenant's budget with what is used of it in the period that it is. */
export interface KeptBudget extends GivenBudget {
  readonly account: BudgetAccount;
  readonly period: TimeRange;
}

/** Accounts of what the ledger has. */
export interface MadeAccounts {
  readonly kept: ReadonlyMap<string, KeptBudget>;
  /** The last event that they have. */
  readonly head: number;
}

/** Everything of tenants that accounts depend on. */
export function tenantsText({
  discovery,
  settings,
}: Pick<AccountSources, 'discovery' | 'settings'>): string {
  const clusters = discovery.clusters().map((cluster) => {
    const { tenant, overrides, excluded } = cluster;
    return [tenant, overrides, excluded, namespacesOf(cluster)];
  });
  const plans = discovery.tenants().map(({ id, plan, planChange }) => [id, plan, planChange]);
  return JSON.stringify([clusters, plans, settings.current().billing.defaultPlanCode]);
}

/** The accounts of all tenants that have a budget; undefined where what they have used cannot be told yet. */
export async function makeAccounts(
  { ledger, totals, settings, discovery, isCharged }: AccountSources,
  now: number,
  signal: AbortSignal,
): Promise<MadeAccounts | undefined> {
  const { pricing, overrides, billing } = settings.current();
  const clusters = discovery.clusters();
  const pricesOf = await pricesInForce({
    ledger,
    settings: { pricing, billing },
    tenants: discovery.tenants(),
  });
  const kept = new Map<string, KeptBudget>();
  for (const [tenant, given] of budgetsOf(clusters, overrides, pricing)) {
    const { counts } = given.budget;
    const period = periodAt(given.budget.period, now, now);
    const account = new BudgetAccount({ tenant, counts, period, pricesOf });
    kept.set(tenant, { ...given, period, account });
  }
  if (kept.size === 0) return { kept, head: ledger.head() };
  const begins = [...kept.values()].map(({ period }) => monthOf(period.from));
  const outcome = await totals()?.addTo(
    { add: (item) => kept.get(item.tenant)?.account.add(item) ?? true },
    {
      // Whole days, so that all of it is of one moment of the ledger.
      range: { from: least(begins), to: nextDay(nextDay(now)) },
      filter: ({ tenant, metric }) => kept.has(tenant) && isCharged(metric),
      hourly: false,
      signal,
    },
  );
  if (outcome?.kind !== 'added' || outcome.head === undefined) return undefined;
  return { kept, head: outcome.head };
}
