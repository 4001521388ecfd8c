import { divideHalfUp } from '../decimal.ts';
import { COST_PLACES, type UnitCost } from './charges.ts';

/**
 * Minor units that differ from the usual two digits, by ISO 4217 (list one of
 * https://www.six-group.com/en/products-services/financial-information/data-standards.html). `Intl`
 * uses CLDR, which differs for about a dozen currencies: it has none for the Iraqi dinar, for
 * example.
 */
const DIGITS: Readonly<Record<string, string>> = {
  0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
  3: 'BHD IQD JOD KWD LYD OMR TND',
  4: 'CLF UYW',
};

const DIGITS_OF = new Map(
  Object.entries(DIGITS).flatMap(([digits, codes]) =>
    codes.split(' ').map((code) => [code, Number(digits)] as const),
  ),
);

/** Metals, units of account and codes for tests: nothing is invoiced in them. */
const NO_MINOR_UNIT = new Set('XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX'.split(' '));

/** Fraction digits of a currency by ISO 4217; undefined for a code that has no minor unit. */
export function currencyDigits(currency: string): number | undefined {
  return NO_MINOR_UNIT.has(currency) ? undefined : (DIGITS_OF.get(currency) ?? 2);
}

/** Decimal text of an amount of minor units with all digits of the currency: `"12.30"`. */
export function moneyText(minorUnits: bigint, digits: number): string {
  const size = minorUnits < 0n ? -minorUnits : minorUnits;
  const text = size.toString().padStart(digits + 1, '0');
  const complete = text.slice(0, text.length - digits);
  const shown = digits === 0 ? complete : `${complete}.${text.slice(-digits)}`;
  return minorUnits < 0n ? `-${shown}` : shown;
}

/** An unrounded cost, in 10⁻²¹ of the currency, rounded to minor units, half away from zero. */
export function minorUnitsOf(cost: bigint, digits: number): bigint {
  return divideHalfAway(cost, minorUnit(digits));
}

/** One minor unit in 10⁻²¹ of the currency. */
export function minorUnit(digits: number): bigint {
  return 10n ** BigInt(COST_PLACES - digits);
}

/**
 * Distributes the cost of one invoice line over its quantities, in minor units. The total is
 * rounded once, half away from zero. Each part is rounded down, and the remaining minor units go to
 * the parts that lost most; of equal parts the first wins. So the parts always add up to the line.
 */
export function shareOut(
  { numerator, denominator }: UnitCost,
  nanos: readonly bigint[],
  digits: number,
): readonly bigint[] {
  const scale = denominator * minorUnit(digits);
  const all = nanos.reduce((sum, part) => sum + part, 0n);
  const exact = nanos.map((part) => part * numerator);
  const shares = exact.map((cost) => divideDown(cost, scale));
  const left =
    divideHalfAway(all * numerator, scale) - shares.reduce((sum, share) => sum + share, 0n);
  const byLoss = exact
    .map((cost, index) => ({ index, loss: cost - divideDown(cost, scale) * scale }))
    .toSorted((a, b) => compare(b.loss, a.loss) || a.index - b.index);
  const raised = new Set(byLoss.slice(0, Number(left)).map(({ index }) => index));
  return shares.map((share, index) => (raised.has(index) ? share + 1n : share));
}

/** Divides and rounds towards minus infinity. */
function divideDown(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  return numerator < 0n && quotient * denominator !== numerator ? quotient - 1n : quotient;
}

/** Divides and rounds half away from zero. `denominator` is positive. */
export function divideHalfAway(numerator: bigint, denominator: bigint): bigint {
  return numerator < 0n
    ? -divideHalfUp(-numerator, denominator)
    : divideHalfUp(numerator, denominator);
}

function compare(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
