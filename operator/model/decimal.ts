/**
 * Exact decimal quantities with at most nine fraction digits (docs/reference/events.md#numbers).
 *
 * A quantity is computed as an integer number of nano-units and rounded once. From there on it is
 * plain decimal text, so that no double ever touches an invoiced number.
 */

declare const decimalBrand: unique symbol;

/**
 * Plain decimal text, never in exponent form, no trailing zeros: `"0.133333333"`. Negative only in
 * corrections, and in sums over them (docs/reference/events.md#corrections).
 */
export type Decimal = string & { readonly [decimalBrand]: true };

/** Fraction digits of a quantity. */
export const DECIMAL_PLACES = 9;

const NANOS_PER_UNIT = 1_000_000_000n;
const CANONICAL_PATTERN = /^(?:0|[1-9][0-9]*)(?:\.[0-9]{0,8}[1-9])?$/;
const DECIMAL_PATTERN = /^(0|[1-9][0-9]*)(?:\.([0-9]{1,9}))?$/;
const PLAIN_PATTERN = /^(-?)([0-9]+)(?:\.([0-9]+))?$/;
const NUMBER_PATTERN = /^([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/;

/** Limits that keep the arithmetic short for any text. No double needs more. */
const MAX_TEXT_LENGTH = 400;
const MAX_SCALE = 400;

/** The decimal text of a non-negative count of nano-units. RangeError if it is negative. */
export function decimalFromNanos(nanos: bigint): Decimal {
  if (nanos < 0n) throw new RangeError(`quantity: below zero: "${nanos}n"`);
  const complete = nanos / NANOS_PER_UNIT;
  const fraction = (nanos % NANOS_PER_UNIT).toString().padStart(DECIMAL_PLACES, '0');
  const trimmed = fraction.replace(/0+$/, '');
  return (trimmed === '' ? `${complete}` : `${complete}.${trimmed}`) as Decimal;
}

/** The decimal text of a count of nano-units that may be negative. */
export function signedFromNanos(nanos: bigint): Decimal {
  return nanos < 0n ? (`-${decimalFromNanos(-nanos)}` as Decimal) : decimalFromNanos(nanos);
}

/** The exact count of nano-units of a decimal text. */
export function nanosFromDecimal(text: Decimal): bigint {
  if (text.startsWith('-')) return -nanosFromDecimal(text.slice(1) as Decimal);
  const [complete = '0', fraction = ''] = text.split('.');
  return BigInt(complete) * NANOS_PER_UNIT + BigInt(fraction.padEnd(DECIMAL_PLACES, '0'));
}

/** The text as a canonical {@link Decimal}; undefined if it is not plain decimal text. */
export function parseDecimal(text: string): Decimal | undefined {
  if (CANONICAL_PATTERN.test(text)) return text as Decimal;
  if (!DECIMAL_PATTERN.test(text)) return undefined;
  return decimalFromNanos(nanosFromDecimal(text as Decimal));
}

/** Like {@link parseDecimal}, with an optional sign. */
export function parseSigned(text: string): Decimal | undefined {
  if (!text.startsWith('-')) return parseDecimal(text);
  const amount = parseDecimal(text.slice(1));
  return amount && signedFromNanos(-nanosFromDecimal(amount));
}

/**
 * The decimal nearest to a JSON number's text (exponents allowed), rounded half up at the ninth
 * digit. Undefined if it is negative, not a number, or longer or larger than any double.
 */
export function roundToDecimal(text: string): Decimal | undefined {
  if (text.length > MAX_TEXT_LENGTH) return undefined;
  return CANONICAL_PATTERN.test(text) ? (text as Decimal) : scaleToDecimal(text, 1n, 1n);
}

/** Like {@link roundToDecimal}, with an optional sign; rounds half away from zero. */
export function roundToSigned(text: string): Decimal | undefined {
  if (!text.startsWith('-')) return roundToDecimal(text);
  const amount = roundToDecimal(text.slice(1));
  return amount && signedFromNanos(-nanosFromDecimal(amount));
}

/**
 * The product of two plain decimal texts with any sign and number of decimals. It is rounded once
 * to `places` decimals, half away from zero. Undefined if one is not such a text.
 */
export function roundedProduct(a: string, b: string, places: number): string | undefined {
  const [left, right] = [a, b].map((text) =>
    text.length > MAX_TEXT_LENGTH ? null : PLAIN_PATTERN.exec(text),
  );
  if (left === null || left === undefined || right === null || right === undefined)
    return undefined;
  const digitsOf = ([, , complete = '', fraction = '']: RegExpExecArray): bigint =>
    BigInt(complete + fraction);
  const scale = (left[3] ?? '').length + (right[3] ?? '').length;
  const size = divideHalfUp(
    digitsOf(left) * digitsOf(right) * 10n ** BigInt(places),
    10n ** BigInt(scale),
  );
  const text = size.toString().padStart(places + 1, '0');
  const complete = text.slice(0, text.length - places);
  const shown = places === 0 ? complete : `${complete}.${text.slice(-places)}`;
  return size !== 0n && left[1] !== right[1] ? `-${shown}` : shown;
}

/**
 * The decimal nearest to a number's text × `numerator` ÷ `denominator`, rounded once. Undefined for
 * texts that {@link roundToDecimal} refuses. Both factors must be positive.
 */
export function scaleToDecimal(
  text: string,
  numerator: bigint,
  denominator: bigint,
): Decimal | undefined {
  if (text.length > MAX_TEXT_LENGTH) return undefined;
  const match = NUMBER_PATTERN.exec(text);
  if (match === null) return undefined;
  const [, complete = '', fraction = '', exponent = '0'] = match;
  const digits = BigInt(complete + fraction) * numerator;
  const scale = Number(exponent) - fraction.length + DECIMAL_PLACES;
  if (digits === 0n || scale < -MAX_TEXT_LENGTH) return decimalFromNanos(0n);
  if (scale > MAX_SCALE) return undefined;
  if (scale >= 0) {
    return decimalFromNanos(divideHalfUp(digits * 10n ** BigInt(scale), denominator));
  }
  return decimalFromNanos(divideHalfUp(digits, denominator * 10n ** BigInt(-scale)));
}

/** Whether {@link roundToDecimal} rounds digits away beyond the ninth decimal. */
export function losesDigits(text: string): boolean {
  if (CANONICAL_PATTERN.test(text)) return false;
  const [, complete = '', fraction = '', exponent = '0'] = NUMBER_PATTERN.exec(text) ?? [];
  const scale = Number(exponent) - fraction.length + DECIMAL_PLACES;
  if (scale >= 0) return false;
  const digits = BigInt(complete + fraction);
  if (scale < -MAX_SCALE) return digits !== 0n;
  return digits % 10n ** BigInt(-scale) !== 0n;
}

/**
 * Returns numerator ÷ denominator, rounded half up. Neither may be negative, and the denominator
 * must not be zero.
 */
export function divideHalfUp(numerator: bigint, denominator: bigint): bigint {
  return (2n * numerator + denominator) / (2n * denominator);
}

/** The larger of two amounts. */
export function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
