import { least } from '../../model/extremes.ts';
import type { Balance, TenantBalances } from './invoice-balance.ts';

type Entry = readonly [id: string, tenant: TenantBalances];

/**
 * Groups tenants by the payer of their invoices. The first tenant of each group bears the invoice
 * lines: the tenant that bears some already, else the tenant whose usage began first.
 */
export function payersOf(
  tenants: ReadonlyMap<string, TenantBalances>,
): readonly (readonly [bearer: Entry, ...others: Entry[]])[] {
  const groups = Map.groupBy(tenants, ([id, { payer }]) => JSON.stringify(payer ?? [id]));
  return [...groups.values()].flatMap((group) => {
    const [bearer = group[0]] = group.toSorted(([, a], [, b]) => rankOf(a) - rankOf(b));
    return bearer === undefined ? [] : [[bearer, ...group.filter((one) => one !== bearer)]];
  });
}

function rankOf({ counted, firstAt }: TenantBalances): number {
  const bears = [...counted.values()].some(({ sums }) => sums.size > 0);
  return bears ? Number.NEGATIVE_INFINITY : (firstAt ?? Number.MAX_SAFE_INTEGER);
}

/** Adds up the balances of tenants with one payer, by metric. */
export function together(group: readonly Entry[]): ReadonlyMap<string, Balance> {
  const all = new Map<string, Balance>();
  for (const [, { metrics }] of group) {
    for (const [metric, balance] of metrics) {
      const sum = all.get(metric);
      all.set(metric, sum === undefined ? balance : sumOf(sum, balance));
    }
  }
  return all;
}

/** Adds two balances. Price and hole are those of `a`, the tenant that bears the lines. */
function sumOf(a: Balance, b: Balance): Balance {
  const until = least([a.until ?? [], b.until ?? []].flat());
  return {
    ...b,
    ...a,
    until: Number.isFinite(until) ? until : undefined,
    open: a.open + b.open,
    missing: a.missing + b.missing,
    late: a.late + b.late,
    invoiced: a.invoiced + b.invoiced,
    changedAt: Math.max(a.changedAt, b.changedAt),
  };
}
