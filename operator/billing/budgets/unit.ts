import type { Budget, BudgetCounts } from '../../model/budget.ts';
import { DECIMAL_PLACES, divideHalfUp } from '../../model/decimal.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';

const CURRENCY = /^[A-Z]{3}$/;

/**
 * The unit of a budget, for people and for records: a currency such as `EUR`, or the code of a
 * metric. Codes have no capital letters.
 */
export function unitText({ counts }: Pick<Budget, 'counts'>): string {
  return counts.kind === 'money' ? counts.currency : counts.metric;
}

/** The reverse of {@link unitText}. */
export function countsOf(unit: string): BudgetCounts {
  return CURRENCY.test(unit) ? { kind: 'money', currency: unit } : { kind: 'metric', metric: unit };
}

/** Decimal text of an amount in the units of a budget, with all of its digits: `371.2`. */
export function exactText({ kind }: BudgetCounts, amount: bigint): string {
  const places = kind === 'money' ? COST_PLACES : DECIMAL_PLACES;
  const digits = `${amount < 0n ? -amount : amount}`.padStart(places + 1, '0');
  const fraction = digits.slice(-places).replace(/0+$/, '');
  const complete = digits.slice(0, -places);
  const text = fraction === '' ? complete : `${complete}.${fraction}`;
  return amount < 0n ? `-${text}` : text;
}

/**
 * An amount of money in the smallest units of a currency with this many digits. Rounds half away
 * from zero, as an invoice line does.
 */
export function minorUnits(amount: bigint, digits: number): bigint {
  const size = divideHalfUp(amount < 0n ? -amount : amount, 10n ** BigInt(COST_PLACES - digits));
  return amount < 0n ? -size : size;
}
