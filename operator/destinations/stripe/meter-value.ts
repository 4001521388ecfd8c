import type { Decimal } from '../../model/decimal.ts';

/** Stripe refuses values with more significant digits (facts 2.4). */
const MAX_DIGITS = 15;

/** A quantity as Stripe takes it: plain decimal text of at most 15 significant digits, half to even. */
export function meterValue(quantity: Decimal): string {
  const [whole = '0', fraction = ''] = quantity.split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const surplus = digits.length - MAX_DIGITS;
  if (surplus <= 0) return quantity;
  const divisor = 10n ** BigInt(surplus);
  const rounded = divideHalfEven(BigInt(digits), divisor);
  const places = fraction.length - surplus;
  if (places <= 0) return String(rounded * 10n ** BigInt(-places));
  const text = String(rounded).padStart(places + 1, '0');
  const decimals = text.slice(-places).replace(/0+$/, '');
  const integer = text.slice(0, -places);
  return decimals === '' ? integer : `${integer}.${decimals}`;
}

function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  const twice = (numerator % denominator) * 2n;
  if (twice < denominator) return quotient;
  if (twice > denominator) return quotient + 1n;
  return quotient % 2n === 0n ? quotient : quotient + 1n;
}
