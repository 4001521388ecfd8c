import type { PriceBookSpec } from '../settings/custom-resources.generated.ts';
import { currencyField, invalidSpec, type Translation } from '../settings/spec-fields.ts';
import { BUILT_IN_METRICS, isGeneralDimension } from '../model/catalog.ts';
import { nanosFromDecimal, parseDecimal } from '../model/decimal.ts';
import { CLOSED_DIMENSIONS, RESERVED_KEYS } from '../model/event-schema.ts';
import type { PriceCharge, Price, PriceBook, Rate, TieredCharge } from '../model/price-book.ts';
import { quote } from '../model/quote.ts';
import { dependsOnMonth } from '../model/pricing/charges.ts';
import { areTied } from '../model/pricing/find-price.ts';
import { currencyDigits } from '../model/pricing/money.ts';
import { isDay } from '../model/pricing/past.ts';

type PriceSpec = PriceBookSpec['prices'][number];
type RateSpec = PriceSpec['rates'][number];
type TierSpec = NonNullable<RateSpec['graduated']>[number];

/** Collects a problem, as `where: what: "input"; fix`. The translation continues. */
type ReportProblem = (problem: string) => void;

/** Most problems in one message. */
const MOST_PROBLEMS = 20;

const DIMENSION = /^[a-z][a-z0-9_]{0,63}$/;
const AMOUNT = /^(0|[1-9]\d{0,11})(?:\.(\d{1,12}))?$/;
const AMOUNT_PLACES = 12;
/** Decimal places that an amount gains when it is divided to one unit. */
const PLACES_OF = { thousand: 3, million: 6 } as const;
/** Fields of an event, beside its dimensions, that a price may depend on. */
const PRICE_FIELDS = ['sku', 'region'];
const RESERVED: readonly string[] = RESERVED_KEYS;
const CLOSED: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(CLOSED_DIMENSIONS));
const BUILT_IN = new Map(BUILT_IN_METRICS.map((metric) => [metric.code, metric]));

/** Translates the spec of a price book. The message of an invalid one lists all problems. */
export function translatePriceBook(name: string, spec: PriceBookSpec): Translation<PriceBook> {
  const problems: string[] = [];
  const report: ReportProblem = (problem) => void problems.push(problem);
  const currency = currencyField('spec.currency', spec.currency);
  if (currency.kind === 'invalid') report(currency.message);
  else if (currencyDigits(currency.value) === undefined) {
    report(`spec.currency: not a currency of invoices: "${currency.value}"; use one such as EUR`);
  }
  const prices = spec.prices.map((price) => translatePrice(price, report));
  reportTies(prices, report);
  if (problems.length > 0 || currency.kind === 'invalid') {
    return invalidSpec('InvalidSpec', listed(problems));
  }
  return { kind: 'settings', settings: { name, currency: currency.value, prices } };
}

function listed(problems: readonly string[]): string {
  const left = problems.length - MOST_PROBLEMS;
  const more = left > 0 ? [`and ${left} more`] : [];
  return [...problems.slice(0, MOST_PROBLEMS), ...more].join('; ');
}

function translatePrice(
  { name, metric, match = {}, rates }: PriceSpec,
  report: ReportProblem,
): Price {
  const where = `spec.prices[${name}]`;
  if (BUILT_IN.get(metric)?.informational === true) {
    report(`${where}.metric: informational, never charged: "${metric}"; leave it out`);
  }
  for (const [key, value] of Object.entries(match)) {
    const problem = matchProblem(metric, key, value);
    if (problem !== undefined) report(`${where}.match: ${problem}`);
  }
  const translated = rates
    .map((rate) => translateRate(`${where}.rates[${rate.from}]`, rate, report))
    .toSorted((a, b) => (a.from < b.from ? -1 : 1));
  reportBeginnings(where, translated, report);
  return { name, metric, match: { ...match }, rates: translated };
}

/** Returns why no event can match: then usage that seems to have a price would have none. */
function matchProblem(metric: string, key: string, value: string): string | undefined {
  const choices = CLOSED.get(key);
  if (choices !== undefined && !choices.includes(value)) {
    return `no such ${key}: ${quote(value)}; use ${choices.join(', ')}`;
  }
  if (PRICE_FIELDS.includes(key)) return undefined;
  if (!DIMENSION.test(key) || RESERVED.includes(key)) {
    return `no price depends on it: ${quote(key)}; use sku, region or a dimension`;
  }
  const dimensions = BUILT_IN.get(metric)?.dimensions;
  if (dimensions === undefined || dimensions.includes(key) || isGeneralDimension(key)) {
    return undefined;
  }
  const fix = `use one of ${[...new Set([...PRICE_FIELDS, ...dimensions])].join(', ')}`;
  return `no dimension of ${metric}: ${quote(key)}; ${fix}`;
}

function translateRate(where: string, rate: RateSpec, report: ReportProblem): Rate {
  const { from, amount, graduated, volume, included, withdrawn } = rate;
  if (!isDay(from)) report(`${where}.from: no such day: ${quote(from)}; write it as in 2026-12-01`);
  const given = [amount, graduated, volume, withdrawn].filter((one) => one !== undefined);
  if (given.length !== 1 || withdrawn === false) {
    report(`${where}: give one of amount, graduated, volume and withdrawn: true`);
    return { from };
  }
  if (withdrawn === true) {
    if (included !== undefined)
      report(`${where}.included: of a price that is withdrawn; leave it out`);
    return { from };
  }
  const includedNanos =
    included === undefined ? 0n : nanosOf(`${where}.included`, included, report);
  return { from, charge: chargeOf(where, rate, includedNanos, report) };
}

function chargeOf(
  where: string,
  rate: RateSpec,
  includedNanos: bigint,
  report: ReportProblem,
): PriceCharge {
  const { amount, graduated, volume, per } = rate;
  if (amount !== undefined) {
    return { kind: 'flat', picos: picosOf(`${where}.amount`, amount, per, report), includedNanos };
  }
  const kind = graduated === undefined ? 'volume' : 'graduated';
  const tiers = translateTiers(`${where}.${kind}`, graduated ?? volume ?? [], per, report);
  return { kind, ...tiers, includedNanos };
}

function translateTiers(
  where: string,
  tiers: readonly TierSpec[],
  per: RateSpec['per'],
  report: ReportProblem,
): Pick<TieredCharge, 'tiers' | 'beyondPicos'> {
  const translated = tiers.map(({ upTo, amount }, index) => ({
    upToNanos: upTo === undefined ? undefined : nanosOf(`${where}[${index}].upTo`, upTo, report),
    picos: picosOf(`${where}[${index}].amount`, amount, per, report),
  }));
  const bounded = translated.flatMap(({ upToNanos, picos }) =>
    upToNanos === undefined ? [] : [{ upToNanos, picos }],
  );
  const beyond = translated.at(-1);
  if (beyond?.upToNanos !== undefined || bounded.length !== tiers.length - 1) {
    report(`${where}: every tier but the last must have upTo, and the last must not`);
  }
  for (const [index, { upToNanos }] of bounded.entries()) {
    if (upToNanos > (bounded[index - 1]?.upToNanos ?? 0n)) continue;
    const text = quote(tiers[index]?.upTo ?? '');
    report(`${where}[${index}].upTo: not above the tier before: ${text}; list tiers ascending`);
  }
  return { tiers: bounded, beyondPicos: beyond?.picos ?? 0n };
}

/**
 * Reports tiers and included quantities that do not begin and end with a calendar month. `rates`
 * are sorted.
 */
function reportBeginnings(where: string, rates: readonly Rate[], report: ReportProblem): void {
  for (const [index, { from, charge }] of rates.entries()) {
    const before = rates[index - 1];
    if (before?.from === from)
      report(`${where}.rates: two rates begin on one day: "${from}"; give one`);
    const counts = [charge, before?.charge].some((one) => one !== undefined && dependsOnMonth(one));
    if (!counts || from.endsWith('-01')) continue;
    const what = 'inside a month with tiers or an included quantity';
    report(`${where}.rates: begins ${what}: "${from}"; begin on the first day of a month`);
  }
}

function reportTies(prices: readonly Price[], report: ReportProblem): void {
  for (const [index, price] of prices.entries()) {
    for (const other of prices.slice(index + 1)) {
      if (!areTied(price, other)) continue;
      const fix = 'add keys to match of one of them, or give different values of one key';
      report(
        `spec.prices: "${price.name}" and "${other.name}" could apply to the same usage, and neither is more specific; ${fix}`,
      );
    }
  }
}

/** Returns the pico-units of money for one unit of the metric. */
function picosOf(where: string, text: string, per: RateSpec['per'], report: ReportProblem): bigint {
  const match = AMOUNT.exec(text);
  if (match === null) {
    report(`${where}: not an amount: ${quote(text)}; write it as in 0.035, with up to 12 decimals`);
    return 0n;
  }
  const [, units = '', fraction = ''] = match;
  const places = AMOUNT_PLACES - (per === undefined ? 0 : PLACES_OF[per]);
  if (/[1-9]/.test(fraction.slice(places))) {
    report(`${where}: too many decimals for a ${per}: ${quote(text)}; give at most ${places}`);
  }
  return BigInt(units + fraction.slice(0, places).padEnd(places, '0'));
}

function nanosOf(where: string, text: string, report: ReportProblem): bigint {
  const decimal = parseDecimal(text);
  if (decimal !== undefined) return nanosFromDecimal(decimal);
  report(
    `${where}: not a quantity: ${quote(text)}; write it as in 1000 or 0.5, with up to 9 decimals`,
  );
  return 0n;
}
