import { inspect } from 'node:util';
/** Nano-units in one unit: quantities are whole numbers of nano-units. */
export const NANO = 1_000_000_000n;

export type QuantityOutcome =
  | { readonly kind: 'quantity'; readonly nano: bigint }
  | { readonly kind: 'invalid'; readonly error: string };

/** Powers of ten; `E` alone is exa, before digits it is an exponent. */
const DECIMAL_SUFFIXES: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

/** Powers of two. */
const BINARY_SUFFIXES: Readonly<Record<string, number>> = {
  Ki: 10,
  Mi: 20,
  Gi: 30,
  Ti: 40,
  Pi: 50,
  Ei: 60,
};

const GRAMMAR = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+)|([A-Za-z]{0,2}))$/;
const MAX_LENGTH = 64;
/** Above any real exponent; a larger one such as `1e999999999` would exhaust memory. */
const MAX_EXPONENT = 64;
/** Maximum of a quantity with a binary suffix in Kubernetes; other quantities have none. */
const MAX_BINARY = (2n ** 63n - 1n) * NANO;

/**
 * Parses a Kubernetes quantity exactly. Rounds a fraction of a nano-unit away from zero, as
 * Kubernetes does, and nothing else. Accepts JSON numbers like text.
 */
export function parseQuantity(input: unknown): QuantityOutcome {
  if (typeof input !== 'string' && typeof input !== 'number') {
    return invalid('expected text or a number', kindOf(input));
  }
  const text = String(input);
  const match = text.length > MAX_LENGTH ? null : GRAMMAR.exec(text);
  if (match === null) {
    return invalid('expected a number with an optional suffix such as m, k, Mi or Gi', text);
  }
  const [, sign, complete = '', decimals, bareDecimals, exponent, suffix = ''] = match;
  const fraction = decimals ?? bareDecimals ?? '';
  const digits = BigInt(complete + fraction);
  const places = fraction.length;
  const magnitude =
    exponent === undefined
      ? fromSuffix(digits, places, suffix)
      : fromExponent(digits, places, Number(exponent));
  if (magnitude === undefined) {
    return exponent === undefined
      ? invalid(`unknown suffix "${suffix}"; suffixes are case-sensitive`, text)
      : invalid('the exponent is too large', text);
  }
  return { kind: 'quantity', nano: sign === '-' ? -magnitude : magnitude };
}

function fromSuffix(digits: bigint, places: number, suffix: string): bigint | undefined {
  const decimal = Object.hasOwn(DECIMAL_SUFFIXES, suffix) ? DECIMAL_SUFFIXES[suffix] : undefined;
  if (decimal !== undefined) return toNano(digits, decimal - places);
  const binary = Object.hasOwn(BINARY_SUFFIXES, suffix) ? BINARY_SUFFIXES[suffix] : undefined;
  if (binary === undefined) return undefined;
  const nano = toNano(digits << BigInt(binary), -places);
  return nano > MAX_BINARY ? MAX_BINARY : nano;
}

function fromExponent(digits: bigint, places: number, exponent: number): bigint | undefined {
  if (exponent > MAX_EXPONENT) return undefined;
  // Any quantity of MAX_LENGTH digits with a smaller exponent is below one nano-unit.
  const bounded = Math.max(exponent, -2 * MAX_LENGTH);
  return toNano(digits, bounded - places);
}

/** `digits` × 10^`power` in nano-units, rounded up. */
function toNano(digits: bigint, power: number): bigint {
  const shift = power + 9;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return (digits + divisor - 1n) / divisor;
}

/** Shows the wrong value; an object only as a symbol, since it can be of any size. */
function kindOf(input: unknown): string {
  if (Array.isArray(input)) return '[…]';
  return typeof input === 'object' && input !== null ? '{…}' : inspect(input);
}

function invalid(problem: string, text: string): QuantityOutcome {
  return {
    kind: 'invalid',
    error: `quantity: ${problem}: ${JSON.stringify(text.slice(0, MAX_LENGTH))}`,
  };
}
