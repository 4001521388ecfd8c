import { larger } from '../decimal.ts';
import type { Charge, Tier, TieredCharge } from '../price-book.ts';

/** Fraction digits of a cost before it is rounded: those of a quantity and those of a price. */
export const COST_PLACES = 21;

/** What one nano-unit costs: numerator ÷ denominator, in 10⁻²¹ of the currency's unit. The denominator is above zero. */
export interface UnitCost {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Whether what a unit costs depends on how many a tenant's calendar month has. */
export function dependsOnMonth(charge: Charge): boolean {
  return charge.kind !== 'flat' || charge.includedNanos > 0n;
}

/** What all of a tenant's calendar month costs, in 10⁻²¹ of the currency's unit; nothing for a quantity below zero. */
export function monthCost(charge: Charge, monthNanos: bigint): bigint {
  const charged = larger(0n, monthNanos - charge.includedNanos);
  if (charge.kind === 'flat') return charged * charge.picos;
  return charge.kind === 'graduated'
    ? graduatedCost(charge, charged)
    : charged * reachedTier(charge, charged).picos;
}

/**
 * What each unit of a tenant's calendar month costs: all of them the same, the month's cost ÷ its quantity
 * (docs/how-to/costs.md#tiers-and-included-quantities). Where corrections leave nothing of a month, what its first unit would.
 */
export function unitCost(charge: Charge, monthNanos: bigint): UnitCost {
  if (!dependsOnMonth(charge) || monthNanos <= 0n) {
    return { numerator: firstPicos(charge), denominator: 1n };
  }
  return { numerator: monthCost(charge, monthNanos), denominator: monthNanos };
}

function firstPicos(charge: Charge): bigint {
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
