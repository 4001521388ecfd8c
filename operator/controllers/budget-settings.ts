import type { TenantOverrideSpec } from '../config/custom-resources.generated.ts';
import { currencyField } from '../config/spec-fields.ts';
import type { Budget, BudgetCounts, BudgetPeriod } from '../model/budget.ts';
import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { nanosFromDecimal, parseDecimal } from '../model/decimal.ts';
import { quote } from '../model/quote.ts';
import { currencyDigits } from '../pricing/money.ts';

export type BudgetSpec = NonNullable<TenantOverrideSpec['budget']>;

export type TranslatedBudget =
  | { readonly kind: 'budget'; readonly budget: Budget }
  /** `where: what: "input"; how to mend it`, everything at once. */
  | { readonly kind: 'problems'; readonly problems: readonly string[] };

/** A nano-unit of money in 10⁻²¹ of the currency's unit. */
const PER_NANO = 10n ** 12n;
const MOST_DAYS = 365;
const INFORMATIONAL = new Set(
  COLLECTOR_METRICS.filter(({ informational }) => informational).map(({ code }) => code),
);

/** The budget that a spec asks for; `where` is the field that it stands in. */
export function translateBudget(where: string, spec: BudgetSpec): TranslatedBudget {
  const problems: string[] = [];
  const report = (problem: string): void => void problems.push(`${where}${problem}`);
  const counts = translateCounts(where, spec, problems);
  const period = translatePeriod(spec, report);
  const decimal = parseDecimal(spec.amount);
  if (decimal === undefined) {
    const mend = 'write it as in 500 or 0.5, with up to 9 decimals';
    report(`.amount: not an amount: ${quote(spec.amount)}; ${mend}`);
  }
  if (counts === undefined || period === undefined || decimal === undefined) {
    return { kind: 'problems', problems };
  }
  const nanos = nanosFromDecimal(decimal);
  const amount = counts.kind === 'money' ? nanos * PER_NANO : nanos;
  return { kind: 'budget', budget: { counts, amount, period, thresholds: [] } };
}

function translateCounts(
  where: string,
  { currency, metric }: BudgetSpec,
  problems: string[],
): BudgetCounts | undefined {
  if (currency === undefined && metric !== undefined) {
    if (!INFORMATIONAL.has(metric)) return { kind: 'metric', metric };
    problems.push(
      `${where}.metric: informational, used up by nobody: ${quote(metric)}; name another`,
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
    `${where}.currency: nothing is invoiced in it: "${currency}"; give one such as EUR`,
  );
  return undefined;
}

function translatePeriod(
  { period, days }: BudgetSpec,
  report: (problem: string) => void,
): BudgetPeriod | undefined {
  if (period === 'month') {
    if (days === undefined) return { kind: 'month' };
    report(`.days: of a month: "${days}"; leave it out, or make the period rolling`);
    return undefined;
  }
  if (days !== undefined && Number.isInteger(days) && days >= 1 && days <= MOST_DAYS) {
    return { kind: 'rolling', days };
  }
  report(`.days: not a number of days from 1 to ${MOST_DAYS}: "${days ?? ''}"; give one`);
  return undefined;
}
