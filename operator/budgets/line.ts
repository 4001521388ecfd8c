import type { Charge } from '../model/price-book.ts';
import { monthCost } from '../pricing/charges.ts';

/** Usage that goes on, as a straight line over time: nano-units at a moment are (constant + slope × moment) ÷ divisor. */
export interface LiveSlope {
  /** At the epoch. */
  readonly constant: bigint;
  /** For each millisecond; never below zero. */
  readonly slope: bigint;
}

/** What one price makes of a tenant's calendar month, as far as a budget counts it. */
export interface BudgetLine {
  readonly charge: Charge;
  /** What slopes are divided by, so that nano-units come out (`quantityOf`). */
  readonly divisor: bigint;
  /** Nano-units of the month that were used before the budget's period began: they cost nothing here, but fill tiers. */
  readonly before: bigint;
  /** Nano-units that the ledger has since. */
  readonly used: bigint;
  /** What it does not have yet. */
  readonly live: LiveSlope;
}

/** What a line has cost since the period began, in 10⁻²¹ of the currency's unit: what the month's cost has grown by. */
export function lineCost(line: BudgetLine, at: number): bigint {
  const { charge, before } = line;
  return monthCost(charge, before + quantityAt(line, at)) - monthCost(charge, before);
}

/** Nano-units since the period began. */
export function quantityAt({ used, live, divisor }: BudgetLine, at: number): bigint {
  return used + divideDown(live.constant + live.slope * BigInt(at), divisor);
}

/**
 * The moments after `from` and before `until` at which a line may come to cost less, all at once: those at which it
 * reaches another price for the whole month. Between two of them no line's cost falls.
 */
export function fallsOf(line: BudgetLine, from: number, until: number): readonly number[] {
  const { charge, before, used, live, divisor } = line;
  if (charge.kind !== 'volume' || live.slope <= 0n) return [];
  return charge.tiers.flatMap(({ upToNanos }) => {
    const first = upToNanos + charge.includedNanos + 1n - before - used;
    const at = Number(-divideDown(live.constant - first * divisor, live.slope));
    return at > from && at < until ? [at] : [];
  });
}

/** Towards minus infinity. The divisor must be above zero. */
function divideDown(numerator: bigint, divisor: bigint): bigint {
  const quotient = numerator / divisor;
  return numerator < 0n && quotient * divisor !== numerator ? quotient - 1n : quotient;
}
