import { type Decimal, nanosFromDecimal, signedFromNanos } from '../../model/decimal.ts';
import type { Cost, CostRow } from './cost-sums.ts';

/** The sum of all rows of a metric, unit and currency. */
export type CostTotal = Omit<CostRow, 'keys'>;

/** The totals in the order of the rows. A cost is the sum of the rows' costs, to the minor unit. */
export function costTotals(rows: readonly CostRow[]): readonly CostTotal[] {
  const totals = new Map<string, CostTotal>();
  for (const row of rows) {
    const key = [row.metric, row.unit, row.currency ?? ''].join('\0');
    const before = totals.get(key);
    totals.set(key, before === undefined ? row : together(before, row));
  }
  return [...totals.values()];
}

/** The cost of each currency, sorted. Usage without a price adds nothing. */
export function costAmounts(
  rows: readonly CostRow[],
): readonly { readonly currency: string; readonly cost: Cost }[] {
  const amounts = new Map<string, Cost>();
  for (const { currency, cost } of rows) {
    if (currency === undefined || cost === undefined) continue;
    const before = amounts.get(currency)?.minorUnits ?? 0n;
    amounts.set(currency, { ...cost, minorUnits: before + cost.minorUnits });
  }
  return [...amounts]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, cost]) => ({ currency, cost }));
}

function together(total: CostTotal, row: CostRow): CostTotal {
  const { metric, unit } = total;
  return {
    metric,
    unit,
    events: total.events + row.events,
    quantity: sum(total.quantity, row.quantity),
    currency: total.currency,
    unpriced: sumOfSome(total.unpriced, row.unpriced),
    cost: costOfBoth(total.cost, row.cost),
  };
}

function sum(a: Decimal, b: Decimal): Decimal {
  return signedFromNanos(nanosFromDecimal(a) + nanosFromDecimal(b));
}

function sumOfSome(a: Decimal | undefined, b: Decimal | undefined): Decimal | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return sum(a, b);
}

function costOfBoth(a: Cost | undefined, b: Cost | undefined): Cost | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return { ...a, minorUnits: a.minorUnits + b.minorUnits };
}
