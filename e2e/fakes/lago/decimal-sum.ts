const SCALE = 18;
/** Lago counts only values whose text looks like this; anything else is skipped without a word. */
const COUNTED = /^-?\d+(\.\d+)?$/;

/** A property's value in units of 10^-18; undefined when Lago would not count it. */
export function scaled(value: unknown): bigint | undefined {
  const text = typeof value === 'number' ? JSON.stringify(value) : value;
  if (typeof text !== 'string' || !COUNTED.test(text)) return undefined;
  const negative = text.startsWith('-');
  const [whole = '0', fraction = ''] = text.replace('-', '').split('.');
  const digits = BigInt(whole + fraction.slice(0, SCALE).padEnd(SCALE, '0'));
  return negative ? -digits : digits;
}

/** Plain decimal text of a scaled number. */
export function unscaled(value: bigint): string {
  const digits = (value < 0n ? -value : value).toString().padStart(SCALE + 1, '0');
  const whole = digits.slice(0, -SCALE);
  const fraction = digits.slice(-SCALE).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** The product of two scaled numbers, scaled. */
export function multiplied(a: bigint, b: bigint): bigint {
  return (a * b) / 10n ** BigInt(SCALE);
}
