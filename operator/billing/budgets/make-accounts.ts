import type { SettingsStore } from '../../settings/settings.ts';
import type { Discovery } from '../../discovery/discovery.ts';
import { namespacesOf } from '../../discovery/tenant-cluster.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { least } from '../../model/extremes.ts';
import type { PricesOf } from '../usage/plan-prices.ts';
import { pricesInForce } from '../usage/prices-in-force.ts';
import type { TimeRange } from '../../model/window.ts';
import type { UsageTotals } from '../usage/usage-totals.ts';
import { BudgetAccount } from './account.ts';
import { budgetsOf, type GivenBudget } from './budget-of.ts';
import { monthOf, nextDay, periodAt } from './period.ts';
import type { PrepaidBalances } from './prepaid.ts';

export interface AccountSources {
  readonly ledger: Pick<Ledger, 'head' | 'records'>;
  /** Undefined until the sums are open. */
  readonly totals: () => Pick<UsageTotals, 'addTo'> | undefined;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly discovery: Pick<Discovery, 'clusters' | 'tenants'>;
  readonly isCharged: (metric: string) => boolean;
  readonly prepaid: Pick<PrepaidBalances, 'book' | 'credited' | 'follow' | 'position'>;
}

/** A tenant's budget with its account of the current period. */
export interface StoredBudget extends GivenBudget {
  readonly account: BudgetAccount;
  readonly period: TimeRange;
  /** The sum of all credits of a prepaid balance; absent for other budgets. */
  readonly credited?: bigint;
  /** The sequence number of the last event that the account was built from. */
  readonly madeOf: number;
}

/** Accounts built from the ledger. */
export interface MadeAccounts {
  readonly stored: ReadonlyMap<string, StoredBudget>;
  /** The sequence number of the last event that all of them contain. */
  readonly head: number;
  readonly pricesOf: PricesOf;
}

/** Text of every field of tenants that accounts depend on. Two equal texts mean equal accounts. */
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

/** Builds the accounts of all tenants with a budget. Undefined while their usage is unknown. */
export async function makeAccounts(
  sources: AccountSources,
  now: number,
  signal: AbortSignal,
): Promise<MadeAccounts | undefined> {
  const { ledger, settings, discovery, prepaid } = sources;
  const { pricing, overrides, billing } = settings.current();
  const clusters = discovery.clusters();
  const pricesOf = await pricesInForce(ledger, { pricing, billing }, discovery.tenants());
  const budgets = [...budgetsOf(clusters, overrides, pricing)];
  const [balances, others] = [budgets.filter(isPrepaid), budgets.filter((one) => !isPrepaid(one))];
  const made = await makeOthers(sources, { budgets: others, pricesOf, now }, signal);
  if (made === undefined) return undefined;
  await prepaid.follow(made.head);
  const stored = new Map(made.stored);
  for (const [tenant, given] of balances) {
    stored.set(tenant, prepaidAccount(prepaid, { tenant, given, pricesOf }));
  }
  return { stored, head: made.head, pricesOf };
}

function isPrepaid([, { budget }]: readonly [tenant: string, given: GivenBudget]): boolean {
  return budget.period.kind === 'prepaid';
}

/** The account of a prepaid balance, from its book. Without credits no usage counts. */
export function prepaidAccount(
  prepaid: AccountSources['prepaid'],
  {
    tenant,
    given,
    pricesOf,
  }: { readonly tenant: string; readonly given: GivenBudget; readonly pricesOf: PricesOf },
): StoredBudget {
  const { counts, period: kind } = given.budget;
  const book = prepaid.book(tenant, counts);
  const since = book?.since ?? Number.POSITIVE_INFINITY;
  const period = periodAt(kind, since, since);
  const account =
    book?.account(pricesOf) ?? new BudgetAccount({ tenant, counts, period, pricesOf });
  const credited = prepaid.credited(tenant, counts);
  return { ...given, account, period, credited, madeOf: prepaid.position };
}

/** Builds the accounts of months and rolling days from the usage sums. */
async function makeOthers(
  { ledger, totals, isCharged }: AccountSources,
  {
    budgets,
    pricesOf,
    now,
  }: {
    readonly budgets: readonly (readonly [tenant: string, given: GivenBudget])[];
    readonly pricesOf: PricesOf;
    readonly now: number;
  },
  signal: AbortSignal,
): Promise<Omit<MadeAccounts, 'pricesOf'> | undefined> {
  const stored = new Map<string, Omit<StoredBudget, 'madeOf'>>();
  for (const [tenant, given] of budgets) {
    const { counts } = given.budget;
    const period = periodAt(given.budget.period, now, now);
    const account = new BudgetAccount({ tenant, counts, period, pricesOf });
    stored.set(tenant, { ...given, period, account });
  }
  if (stored.size === 0) return { stored: new Map(), head: ledger.head() };
  const begins = [...stored.values()].map(({ period }) => monthOf(period.from));
  const outcome = await totals()?.addTo(
    { add: (item) => stored.get(item.tenant)?.account.add(item) ?? true },
    {
      // Whole days, so that all sums are of the same head of the ledger.
      range: { from: least(begins), to: nextDay(nextDay(now)) },
      filter: ({ tenant, metric }) => stored.has(tenant) && isCharged(metric),
      hourly: false,
      signal,
    },
  );
  if (outcome?.kind !== 'added' || outcome.head === undefined) return undefined;
  const { head } = outcome;
  return {
    stored: new Map([...stored].map(([tenant, one]) => [tenant, { ...one, madeOf: head }])),
    head,
  };
}
