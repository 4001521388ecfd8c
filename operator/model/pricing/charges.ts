import { larger } from '../decimal.ts';
import type { PriceCharge, Tier, TieredCharge } from '../price-book.ts';

/** Fraction digits of an unrounded cost: those of a quantity plus those of a price. */
export const COST_PLACES = 21;

/** Cost of one nano-unit: numerator ÷ denominator (positive), in 10⁻²¹ of the currency. */
export interface UnitCost {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Whether the cost of a unit depends on the quantity of a tenant's calendar month. */
export function dependsOnMonth(charge: PriceCharge): boolean {
  return charge.kind !== 'flat' || charge.includedNanos > 0n;
}

/** Cost of a tenant's calendar month, in 10⁻²¹ of the currency; zero for a negative quantity. */
export function monthCost(charge: PriceCharge, monthNanos: bigint): bigint {
  const charged = larger(0n, monthNanos - charge.includedNanos);
  if (charge.kind === 'flat') return charged * charge.picos;
  return charge.kind === 'graduated'
    ? graduatedCost(charge, charged)
    : charged * reachedTier(charge, charged).picos;
}

/**
 * Cost of each unit in a tenant's calendar month: the month's cost ÷ its quantity
 * (docs/how-to/costs.md#tiers-and-included-quantities). If corrections leave nothing of a month,
 * the cost of its first unit.
 */
export function unitCost(charge: PriceCharge, monthNanos: bigint): UnitCost {
  if (!dependsOnMonth(charge) || monthNanos <= 0n) {
    return { numerator: firstPicos(charge), denominator: 1n };
  }
  return { numerator: monthCost(charge, monthNanos), denominator: monthNanos };
}

function firstPicos(charge: PriceCharge): bigint {
  if (charge.includedNanos > 0n) return 0n;
  return charge.kind === 'flat' ? charge.picos : reachedTier(charge, 0n).picos;
}

function graduatedCost({ tiers, beyondPicos }: TieredCharge, nanos: bigint): bigint {
  let cost = 0n;
  let counted = 0n;
  for (const { upToNanos, picos } of tiers) {
    if (nanos <= upToNanos) return cost + (nanos - counted) * picos;
    cost += (upToNanos - counted) * picos;
    counted = upToNanos;
  }
  return cost + (nanos - counted) * beyondPicos;
}

function reachedTier({ tiers, beyondPicos }: TieredCharge, nanos: bigint): Pick<Tier, 'picos'> {
  return tiers.find(({ upToNanos }) => nanos <= upToNanos) ?? { picos: beyondPicos };
}
