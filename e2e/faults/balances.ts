import type { UsageEvent } from '../../operator/model/event.ts';
import { nanosFromDecimal } from '../../operator/model/decimal.ts';
import type { PriceBook } from '../../operator/model/price-book.ts';
import type { LedgerEnd } from './subject/messages.ts';

/** Whole units of money for each unit of a metric. */
const PRICES: Readonly<Record<string, bigint>> = {
  tenant_instance_hours: 1n,
  tenant_cpu_core_hours: 2n,
  tenant_storage_gb_hours: 3n,
};
const PICOS = 10n ** 12n;
/** Each tenant is credited by these keys, in every life anew. */
export const CREDIT_KEYS = ['a', 'b', 'c', 'd', 'e'];
/** Of each credit, whole units of money. */
export const CREDIT = '100';

/** What usage costs in all runs. */
export const PRICE_BOOK: PriceBook = {
  name: 'standard',
  currency: 'EUR',
  prices: Object.entries(PRICES).map(([metric, price]) => ({
    name: metric,
    metric,
    match: {},
    rates: [
      {
        from: '2000-01-01',
        charge: { kind: 'flat', picos: price * PICOS, includedNanos: 0n },
      },
    ],
  })),
};

/** Prepaid balances that are not what was credited, and ledger × price since, one line each. */
export function wrongBalances(
  balances: LedgerEnd['balances'],
  acknowledged: Iterable<UsageEvent>,
): readonly string[] {
  if (balances === undefined) return [];
  const events = [...acknowledged];
  const credited = BigInt(CREDIT_KEYS.length) * BigInt(CREDIT) * PICOS * 10n ** 9n;
  return balances.flatMap((balance) => {
    const { tenant, since } = balance;
    const used = events
      .filter((event) => event.tenant === tenant && Date.parse(event.window_start) >= since)
      .reduce((sum, event) => sum + costOf(event), 0n);
    const wanted = `${credited} credited, ${used} used`;
    const found = `${balance.credited} credited, ${balance.used} used`;
    return wanted === found ? [] : [`balance of ${tenant}: ${found} instead of ${wanted}`];
  });
}

function costOf({ metric, quantity }: UsageEvent): bigint {
  return nanosFromDecimal(quantity) * (PRICES[metric] ?? 0n) * PICOS;
}
