import type { PriceCharge, Tier } from '../price-book.ts';

/**
 * The canonical form of a charge: all charges with the same cost for every quantity share it.
 * Billing systems have tiers but no included quantities, so these become a first tier of 0. An
 * included quantity beside `volume` cannot, and stays.
 */
export function plainCharge(charge: PriceCharge): PriceCharge {
  if (charge.kind === 'volume' && charge.tiers.length > 0) {
    const plain = merged(charge.tiers, charge.beyondPicos);
    if (plain.length > 0) return { ...charge, tiers: plain };
  }
  const { includedNanos } = charge;
  const beyondPicos = charge.kind === 'flat' ? charge.picos : charge.beyondPicos;
  const tiers = charge.kind === 'graduated' ? charge.tiers : [];
  const free: Tier[] = includedNanos > 0n ? [{ upToNanos: includedNanos, picos: 0n }] : [];
  const moved = tiers.map(({ upToNanos, picos }) => ({
    upToNanos: upToNanos + includedNanos,
    picos,
  }));
  const plain = merged([...free, ...moved], beyondPicos);
  return plain.length === 0
    ? { kind: 'flat', picos: beyondPicos, includedNanos: 0n }
    : { kind: 'graduated', tiers: plain, beyondPicos, includedNanos: 0n };
}

/** Whether two charges cost the same for every quantity. */
export function sameCharge(a: PriceCharge, b: PriceCharge): boolean {
  return textOf(plainCharge(a)) === textOf(plainCharge(b));
}

/** Joins neighbouring tiers with the same price. */
function merged(tiers: readonly Tier[], beyondPicos: bigint): readonly Tier[] {
  return tiers.filter(({ picos }, index) => picos !== (tiers[index + 1]?.picos ?? beyondPicos));
}

function textOf(charge: PriceCharge): string {
  return JSON.stringify(charge, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}
