/** Texts of amounts in integer parts of a unit; true even if the unit later has other parts. */

/**
 * An amount of parts in units, exact and in lowest terms: `480000`, or `1440000/7`. Neither may be
 * negative.
 */
export function fractionText(amount: bigint, partsPerUnit: bigint): string {
  if (amount % partsPerUnit === 0n) return `${amount / partsPerUnit}`;
  const divisor = commonDivisor(amount, partsPerUnit);
  return `${amount / divisor}/${partsPerUnit / divisor}`;
}

/** The parts of a text from {@link fractionText}. Throws a SyntaxError for other texts. */
export function unitsOfFraction(text: string, partsPerUnit: bigint): bigint {
  const [numerator = '', denominator = '1'] = text.split('/');
  return (BigInt(numerator) * partsPerUnit) / BigInt(denominator);
}

export function commonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : commonDivisor(b, a % b);
}
