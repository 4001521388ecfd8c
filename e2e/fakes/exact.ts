/** A decimal number without rounding: `digits` × 10^-`scale`. */
export interface Exact {
  readonly digits: bigint;
  readonly scale: number;
}

export const ZERO: Exact = { digits: 0n, scale: 0 };

const PLAIN = /^(-?)(\d+)(?:\.(\d+))?$/;

/** Parses plain decimal text; undefined for any other text. */
export function parseExact(text: string): Exact | undefined {
  const match = PLAIN.exec(text);
  if (match === null) return undefined;
  const [, sign = '', integral = '', fraction = ''] = match;
  const digits = BigInt(integral + fraction);
  return { digits: sign === '-' ? -digits : digits, scale: fraction.length };
}

/** Parses text that is known to be a number. */
export function exact(text: string): Exact {
  const value = parseExact(text);
  if (value === undefined) throw new RangeError(`exact: not a plain decimal number: "${text}"`);
  return value;
}

export function plus(a: Exact, b: Exact): Exact {
  const scale = Math.max(a.scale, b.scale);
  return { digits: raised(a, scale) + raised(b, scale), scale };
}

export function minus(a: Exact, b: Exact): Exact {
  return plus(a, { digits: -b.digits, scale: b.scale });
}

export function times(a: Exact, b: Exact): Exact {
  return { digits: a.digits * b.digits, scale: a.scale + b.scale };
}

export function sum(values: Iterable<Exact>): Exact {
  let total = ZERO;
  for (const value of values) total = plus(total, value);
  return total;
}

/** Returns `value` × `part` ÷ `total`, rounded half up to `scale` decimals. */
export function share(value: Exact, part: number, total: number, scale: number): Exact {
  const numerator = value.digits * BigInt(part) * 10n ** BigInt(scale);
  return { digits: halfUp(numerator, 10n ** BigInt(value.scale) * BigInt(total)), scale };
}

/** Rounds half up to an integer: cents as invoices show them. */
export function rounded(value: Exact): number {
  return Number(halfUp(value.digits, 10n ** BigInt(value.scale)));
}

/** Returns plain decimal text without needless zeros. */
export function textOf({ digits, scale }: Exact): string {
  const text = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, '0');
  const integer = text.slice(0, text.length - scale);
  const fraction = text.slice(text.length - scale).replace(/0+$/, '');
  return `${digits < 0n ? '-' : ''}${integer}${fraction === '' ? '' : `.${fraction}`}`;
}

function raised({ digits, scale }: Exact, to: number): bigint {
  return digits * 10n ** BigInt(to - scale);
}

/** Rounds away from zero where exactly between two. */
function halfUp(numerator: bigint, denominator: bigint): bigint {
  const negative = numerator < 0n;
  const magnitude = (2n * (negative ? -numerator : numerator) + denominator) / (2n * denominator);
  return negative ? -magnitude : magnitude;
}
