import type { TenantOverrideSpec } from '../settings/custom-resources.generated.ts';
import { currencyField } from '../settings/spec-fields.ts';
import { duration } from '../settings/parsers/durations.ts';
import type { Budget, BudgetCounts, BudgetGrace, BudgetPeriod } from '../model/budget.ts';
import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { nanosFromDecimal, parseDecimal } from '../model/decimal.ts';
import { quote } from '../model/quote.ts';
import { currencyDigits } from '../model/pricing/money.ts';

export type BudgetSpec = NonNullable<TenantOverrideSpec['budget']>;

export type TranslatedBudget =
  | { readonly kind: 'budget'; readonly budget: Budget }
  /** All problems, each as `where: what: "input"; fix`. */
  | { readonly kind: 'problems'; readonly problems: readonly string[] };

/** A nano-unit of money in 10⁻²¹ of the currency's unit. */
const PER_NANO = 10n ** 12n;
const MOST_DAYS = 365;
/** Percent. */
const THRESHOLDS = [80, 100];
const GRACE_TIME = duration('0s', '34d');
const AMOUNT_FIX = 'write it as in 500 or 0.5, with up to 9 decimals';
const INFORMATIONAL = new Set(
  COLLECTOR_METRICS.filter(({ informational }) => informational).map(({ code }) => code),
);

/** Translates the budget of a spec. `where` is its field, for messages. */
export function translateBudget(where: string, spec: BudgetSpec): TranslatedBudget {
  const problems: string[] = [];
  const report = (problem: string): void => void problems.push(`${where}${problem}`);
  const counts = translateCounts(where, spec, problems);
  const period = translatePeriod(spec, report);
  const amount = translateAmount('.amount', spec.amount, counts, report);
  const { thresholds = THRESHOLDS, atLimit = 'warn' } = spec;
  const wrong = thresholds.find((percent) => !(Number.isInteger(percent) && isPercent(percent)));
  if (wrong !== undefined) {
    report(`.thresholds: not a percentage from 1 to 100: "${wrong}"; give whole numbers`);
  }
  const grace = translateGrace(spec, counts, report);
  if (counts === undefined || period === undefined || amount === undefined || problems.length > 0) {
    return { kind: 'problems', problems };
  }
  const reported = [...new Set(thresholds)].toSorted((a, b) => a - b);
  return {
    kind: 'budget',
    budget: { counts, amount, period, thresholds: reported, atLimit, grace },
  };
}

const isPercent = (number: number): boolean => number >= 1 && number <= 100;

/** Returns an amount in the units of the budget. */
function translateAmount(
  field: string,
  text: string,
  counts: BudgetCounts | undefined,
  report: (problem: string) => void,
): bigint | undefined {
  const decimal = parseDecimal(text);
  if (decimal === undefined) {
    report(`${field}: not an amount: ${quote(text)}; ${AMOUNT_FIX}`);
    return undefined;
  }
  const nanos = nanosFromDecimal(decimal);
  return counts?.kind === 'money' ? nanos * PER_NANO : nanos;
}

function translateGrace(
  { grace, atLimit }: BudgetSpec,
  counts: BudgetCounts | undefined,
  report: (problem: string) => void,
): BudgetGrace | undefined {
  if (grace === undefined) return undefined;
  const { time, amount: text } = grace;
  if (atLimit !== 'suspend') {
    report('.grace: no effect without a suspension; set atLimit to suspend, or leave it out');
    return undefined;
  }
  if (time !== undefined && text === undefined) {
    const parsed = GRACE_TIME.parse(time);
    if (parsed.kind === 'value') return { kind: 'time', ms: parsed.value };
    report(`.grace.time: ${parsed.what}: ${quote(time)}; ${parsed.fix}`);
    return undefined;
  }
  if (time === undefined && text !== undefined) {
    const amount = translateAmount('.grace.amount', text, counts, report);
    return amount === undefined ? undefined : { kind: 'amount', amount };
  }
  report('.grace: give time, or an amount in the unit of the budget');
  return undefined;
}

function translateCounts(
  where: string,
  { currency, metric }: BudgetSpec,
  problems: string[],
): BudgetCounts | undefined {
  if (currency === undefined && metric !== undefined) {
    if (!INFORMATIONAL.has(metric)) return { kind: 'metric', metric };
    problems.push(
      `${where}.metric: informational, so no budget counts it: ${quote(metric)}; name another`,
    );
    return undefined;
  }
  if (currency === undefined || metric !== undefined) {
    problems.push(`${where}: give currency for an amount of money, or metric for a quantity`);
    return undefined;
  }
  const parsed = currencyField(`${where}.currency`, currency);
  if (parsed.kind === 'invalid') {
    problems.push(parsed.message);
    return undefined;
  }
  if (currencyDigits(parsed.value) !== undefined) return { kind: 'money', currency: parsed.value };
  problems.push(
    `${where}.currency: not a currency of invoices: "${currency}"; use one such as EUR`,
  );
  return undefined;
}

function translatePeriod(
  { period, days }: BudgetSpec,
  report: (problem: string) => void,
): BudgetPeriod | undefined {
  if (period !== 'rolling') {
    if (days === undefined) return { kind: period };
    const what = period === 'month' ? 'a month' : 'a prepaid balance';
    report(`.days: of ${what}: "${days}"; leave it out, or make the period rolling`);
    return undefined;
  }
  if (days !== undefined && Number.isInteger(days) && days >= 1 && days <= MOST_DAYS) {
    return { kind: 'rolling', days };
  }
  report(`.days: not a number of days from 1 to ${MOST_DAYS}: "${days ?? ''}"; give one`);
  return undefined;
}
