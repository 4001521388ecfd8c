import { larger } from '../../model/decimal.ts';
import type { PriceCharge } from '../../model/price-book.ts';

/** The part of a month's quantity that has one price. */
export interface PricedTier {
  /** Inclusive; absent for the last tier. */
  readonly upToNanos?: bigint;
  readonly picos: bigint;
}

/** A quantity inside one tier. */
export interface TierPart {
  /** Counts from 1. */
  readonly tier: number;
  readonly nanos: bigint;
  readonly picos: bigint;
}

/**
 * The tiers of a charge in the order in which a month fills them. An included quantity is a first
 * tier of price 0. A `volume` charge has the price of the tier that the quantity of the month
 * reaches.
 */
export function tiersOf(charge: PriceCharge, monthNanos: bigint): readonly PricedTier[] {
  const { includedNanos } = charge;
  const included = includedNanos > 0n ? [{ upToNanos: includedNanos, picos: 0n }] : [];
  if (charge.kind === 'flat') return [...included, { picos: charge.picos }];
  const { tiers, beyondPicos } = charge;
  if (charge.kind === 'volume') {
    const charged = larger(0n, monthNanos - includedNanos);
    const reached = tiers.find(({ upToNanos }) => charged <= upToNanos);
    return [...included, { picos: reached?.picos ?? beyondPicos }];
  }
  const graduated = tiers.map(({ upToNanos, picos }) => ({
    upToNanos: upToNanos + includedNanos,
    picos,
  }));
  return [...included, ...graduated, { picos: beyondPicos }];
}

/**
 * Splits a quantity by tier. `filled` is the quantity of the month before it. A negative quantity
 * takes from the tiers what was filled last. Below zero the first tier applies.
 */
export function fillTiers(
  tiers: readonly PricedTier[],
  filled: bigint,
  nanos: bigint,
): readonly TierPart[] {
  const [low, high] = nanos < 0n ? [filled + nanos, filled] : [filled, filled + nanos];
  const parts = tiers.flatMap(({ upToNanos, picos }, index): TierPart[] => {
    const begin = index === 0 ? low : larger(low, tiers[index - 1]?.upToNanos ?? low);
    const end = upToNanos === undefined || high < upToNanos ? high : upToNanos;
    if (end <= begin) return [];
    return [{ tier: index + 1, nanos: nanos < 0n ? begin - end : end - begin, picos }];
  });
  return nanos < 0n ? parts.toReversed() : parts;
}
