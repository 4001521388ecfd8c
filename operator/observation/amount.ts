import type { RawObject } from '../kubernetes/source.ts';

const SUFFIX: Readonly<Record<string, readonly [numerator: bigint, denominator: bigint]>> = {
  n: [1n, 1_000_000_000n],
  u: [1n, 1_000_000n],
  m: [1n, 1000n],
  '': [1n, 1n],
  k: [10n ** 3n, 1n],
  M: [10n ** 6n, 1n],
  G: [10n ** 9n, 1n],
  T: [10n ** 12n, 1n],
  P: [10n ** 15n, 1n],
  E: [10n ** 18n, 1n],
  Ki: [2n ** 10n, 1n],
  Mi: [2n ** 20n, 1n],
  Gi: [2n ** 30n, 1n],
  Ti: [2n ** 40n, 1n],
  Pi: [2n ** 50n, 1n],
  Ei: [2n ** 60n, 1n],
};

/** Nano-units of the quantity at a key; undefined when it is absent, malformed or negative. */
export function amountAt(parent: RawObject, key: string): bigint | undefined {
  const value = parent[key];
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string') return undefined;
  const match = /^\+?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,2})|([a-zA-Z]{0,2}))$/.exec(text);
  if (match === null) return undefined;
  const [, whole = '', fraction = '', exponent, suffix = ''] = match;
  const scale = SUFFIX[suffix];
  if (scale === undefined || whole + fraction === '') return undefined;
  const shift = BigInt(exponent ?? '0') - BigInt(fraction.length) + 9n;
  let numerator = BigInt(whole + fraction) * scale[0];
  let denominator = scale[1];
  if (shift >= 0n) numerator *= 10n ** shift;
  if (shift < 0n) denominator *= 10n ** -shift;
  return (numerator + denominator - 1n) / denominator;
}
