import type { PriceCharge } from '../../model/price-book.ts';
import { monthCost } from '../../model/pricing/charges.ts';

/** Usage that is expected to go on steadily: `nanos` in each `windowMs`, from `since` on. */
export interface Growth {
  /** Milliseconds since the epoch. */
  readonly since: number;
  /** Milliseconds, above zero. */
  readonly windowMs: number;
  /** Nano-units, not below zero. */
  readonly nanos: bigint;
}

/** The usage that one price covers in a tenant's calendar month, as far as a budget counts it. */
export interface BudgetLine {
  readonly charge: PriceCharge;
  /** Nano-units of the month before the budget's period. They cost nothing here but fill tiers. */
  readonly before: bigint;
  /** Nano-units in the ledger since the period began. */
  readonly used: bigint;
  /** Expected usage beyond `used`. */
  readonly growth: Growth;
}

export const NO_GROWTH: Growth = { since: 0, windowMs: 1, nanos: 0n };

/**
 * The growth of the month's cost by these nano-units since the period began, in 10⁻²¹ of the
 * currency's unit.
 */
export function lineCost(
  { charge, before }: Pick<BudgetLine, 'charge' | 'before'>,
  nanos: bigint,
): bigint {
  return monthCost(charge, before + nanos) - monthCost(charge, before);
}

/** Expected nano-units between the beginning of the period and a moment, rounded down. */
export function quantityAt({ used, growth }: BudgetLine, at: number): bigint {
  const { since, windowMs, nanos } = growth;
  return at <= since ? used : used + (nanos * BigInt(at - since)) / BigInt(windowMs);
}

/**
 * The moments in `(from, until)` at which the cost of a line can fall: usage reaches another volume
 * price for the whole month. Between two of them no line's cost falls.
 */
export function fallsOf(line: BudgetLine, from: number, until: number): readonly number[] {
  const { charge, before, used, growth } = line;
  if (charge.kind !== 'volume' || growth.nanos === 0n) return [];
  return charge.tiers.flatMap(({ upToNanos }) => {
    const first = upToNanos + charge.includedNanos + 1n - before - used;
    const at = growth.since + Number(divideUp(first * BigInt(growth.windowMs), growth.nanos));
    return first > 0n && at > from && at < until ? [at] : [];
  });
}

/** The numerator must be above zero. */
function divideUp(numerator: bigint, divisor: bigint): bigint {
  return (numerator + divisor - 1n) / divisor;
}
