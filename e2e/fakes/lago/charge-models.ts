import { type Exact, exact, minus, parseExact, plus, times, ZERO } from '../exact.ts';
import { isObject } from './answers.ts';

const ONE = exact('1');
const MODELS_WITH_RANGES = new Set(['graduated', 'volume']);
const AMOUNT = /^\d+(\.\d+)?$/;

interface Range {
  readonly from: Exact;
  /** Undefined for the last one. */
  readonly to: Exact | undefined;
  readonly each: Exact;
  readonly flat: Exact;
}

/**
 * Returns the price of units by the properties of a charge or a filter, in the currency's main
 * unit, not rounded.
 */
export function amountOf(
  model: string,
  properties: Readonly<Record<string, unknown>>,
  units: Exact,
): Exact {
  if (!MODELS_WITH_RANGES.has(model)) {
    const amount = properties['amount'];
    return times(units, typeof amount === 'string' ? (parseExact(amount) ?? ZERO) : ZERO);
  }
  const ranges = rangesOf(model, properties) ?? [];
  return model === 'graduated' ? graduated(ranges, units) : volume(ranges, units);
}

/**
 * Returns the error code for the properties of a charge or a filter; undefined without an error.
 */
export function propertiesProblem(
  model: string,
  properties: Readonly<Record<string, unknown>>,
): Record<string, readonly string[]> | undefined {
  if (model === 'standard') {
    const { amount } = properties;
    const isAmount = typeof amount === 'string' && AMOUNT.test(amount);
    return isAmount ? undefined : { amount: ['invalid_amount'] };
  }
  if (!MODELS_WITH_RANGES.has(model)) return undefined;
  const ranges = rangesOf(model, properties);
  const isInvalid =
    ranges === undefined || ranges.some((range, index) => !isBounded(ranges, range, index));
  return isInvalid ? { [`${model}_ranges`]: [`invalid_${model}_ranges`] } : undefined;
}

/**
 * Returns whether a range begins where the one before ends, or a unit later (lago-api
 * app/services/validators/range_bounds_validator.rb).
 */
function isBounded(ranges: readonly Range[], { from, to }: Range, index: number): boolean {
  const before = ranges[index - 1]?.to ?? ZERO;
  const begins = [before, ...(index === 0 ? [] : [plus(before, ONE)])].some((one) =>
    isSame(one, from),
  );
  const isLast = index === ranges.length - 1;
  return begins && (isLast ? to === undefined : to !== undefined && isBelow(from, to));
}

function rangesOf(
  model: string,
  properties: Readonly<Record<string, unknown>>,
): readonly Range[] | undefined {
  const given = properties[`${model}_ranges`];
  if (!Array.isArray(given) || given.length === 0) return undefined;
  const ranges = (given as unknown[]).map((range) =>
    isObject(range) ? readRange(range) : undefined,
  );
  return ranges.every((range) => range !== undefined) ? ranges : undefined;
}

function readRange(range: Readonly<Record<string, unknown>>): Range | undefined {
  const { from_value, to_value, per_unit_amount, flat_amount } = range;
  const from = readNumber(from_value);
  const each = typeof per_unit_amount === 'string' ? parseExact(per_unit_amount) : undefined;
  const flat = typeof flat_amount === 'string' ? parseExact(flat_amount) : undefined;
  if (from === undefined || each === undefined || flat === undefined) return undefined;
  if (to_value === null || to_value === undefined) return { from, to: undefined, each, flat };
  const to = readNumber(to_value);
  return to === undefined ? undefined : { from, to, each, flat };
}

/** Reads a JSON number, or text. */
function readNumber(value: unknown): Exact | undefined {
  return typeof value === 'number' || typeof value === 'string'
    ? parseExact(`${value}`)
    : undefined;
}

/**
 * Counts a range's units like lago-api
 * app/services/charge_models/amount_details/range_graduated_service.rb.
 */
function graduated(ranges: readonly Range[], units: Exact): Exact {
  const isAdjacent = ranges
    .slice(1)
    .every(({ from }, index) => isSame(from, ranges[index]?.to ?? ZERO));
  let total = ZERO;
  for (const { from, to, each, flat } of ranges) {
    const reached = to !== undefined && !isBelow(units, to) ? to : units;
    const isFirst = isSame(from, ZERO);
    const own = isFirst ? reached : plus(minus(reached, from), isAdjacent ? ZERO : ONE);
    total = plus(total, plus(times(own, each), flat));
    if (to === undefined || !isBelow(to, units)) break;
  }
  return total;
}

function volume(ranges: readonly Range[], units: Exact): Exact {
  const range = ranges.find(({ to }) => to === undefined || !isBelow(to, units));
  return range === undefined ? ZERO : plus(times(units, range.each), range.flat);
}

function isSame(a: Exact, b: Exact): boolean {
  return minus(a, b).digits === 0n;
}

function isBelow(a: Exact, b: Exact): boolean {
  return minus(a, b).digits < 0n;
}
