import { decimalFromNanos } from '../decimal.ts';
import type { PriceCharge } from '../price-book.ts';

const AMOUNT = /^(\d+)(?:\.(\d*?)0*)?$/;
const PLACES = 12;
const SCALE = 10n ** BigInt(PLACES);

/**
 * Pico-units of a plain decimal text such as `2.50`. Undefined for other texts and for more than
 * twelve decimals.
 */
export function parseAmount(text: string): bigint | undefined {
  const match = AMOUNT.exec(text);
  if (match === null) return undefined;
  const [, complete = '', fraction = ''] = match;
  return fraction.length > PLACES ? undefined : BigInt(complete + fraction.padEnd(PLACES, '0'));
}

/** The shortest plain decimal text of a non-negative amount: `2.5`. */
export function amountText(picos: bigint): string {
  const fraction = (picos % SCALE).toString().padStart(PLACES, '0').replace(/0+$/, '');
  const complete = (picos / SCALE).toString();
  return fraction === '' ? complete : `${complete}.${fraction}`;
}

interface TierFields {
  /** Absent for the last tier. */
  readonly upTo?: string;
  readonly amount: string;
}

/**
 * Returns a charge with the fields that a rate of a PriceBook has. Amounts and quantities are
 * decimal text.
 */
export function chargeFields(charge: PriceCharge): {
  readonly amount?: string;
  readonly graduated?: readonly TierFields[];
  readonly volume?: readonly TierFields[];
  readonly included?: string;
} {
  const { includedNanos } = charge;
  const included = includedNanos > 0n ? { included: decimalFromNanos(includedNanos) } : {};
  if (charge.kind === 'flat') return { amount: amountText(charge.picos), ...included };
  const tiers = [
    ...charge.tiers.map(({ upToNanos, picos }) => ({
      upTo: decimalFromNanos(upToNanos),
      amount: amountText(picos),
    })),
    { amount: amountText(charge.beyondPicos) },
  ];
  return charge.kind === 'graduated'
    ? { graduated: tiers, ...included }
    : { volume: tiers, ...included };
}

/** A charge as a text for people: `0.08 up to 1000, 0.05 beyond`. */
export function chargeText(charge: PriceCharge): string {
  const { amount, graduated, volume, included } = chargeFields(charge);
  const text =
    amount ??
    (graduated ?? volume ?? [])
      .map((tier) => `${tier.amount} ${tier.upTo === undefined ? 'beyond' : `up to ${tier.upTo}`}`)
      .join(', ');
  const all = volume === undefined ? text : `all units ${text}`;
  return included === undefined ? all : `${all}, ${included} included`;
}
