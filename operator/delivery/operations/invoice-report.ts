import type { UnpricedUsage } from '../../destinations/prices.ts';
import { signedFromNanos } from '../../model/decimal.ts';
import { formatInstant } from '../../model/window.ts';
import { type Balance, isMismatch, type TenantBalances } from './invoice-balance.ts';
import { payersOf, together } from './shared-payers.ts';

const NANOS = 1e9;
const MAX_EXAMPLES = 20;
/** Most tenants in the text of a cause. */
const MAX_NAMES = 5;
/** How long an excess must last: usage out of order is one until the cursor passes it. */
const EXCESS_AFTER_MS = 3_600_000;

/** The comparison of a destination's invoices with the delivered usage. */
export interface InvoiceReport {
  /** Milliseconds since the epoch. */
  readonly comparedAt: number;
  /** Number of tenants with a compared invoice. */
  readonly tenants: number;
  /** Number of tenants whose invoices could not be fetched. `problem`: the first one's reason. */
  readonly unanswered: number;
  readonly problem?: string;
  /** Number of pairs of tenant and metric with a difference. */
  readonly differing: number;
  /** The twenty largest differences. */
  readonly examples: readonly InvoiceMismatch[];
}

export interface InvoiceMismatch {
  readonly tenant: string;
  readonly metric: string;
  /** Invoiced − delivered usage, plain decimal text. Negative usage is on no invoice. */
  readonly difference: string;
  /** Approximate value of the difference. Absent if no price is known. */
  readonly amount?: { readonly value: number; readonly currency: string };
  /** Usage before this moment is closed, milliseconds since the epoch. */
  readonly until: number;
  /** For people: the likely cause. */
  readonly cause: string;
}

export function mismatchesOf(
  tenants: ReadonlyMap<string, TenantBalances>,
  unpriced: readonly UnpricedUsage[],
  now: number,
): readonly InvoiceMismatch[] {
  const found: { readonly size: number; readonly mismatch: InvoiceMismatch }[] = [];
  for (const group of payersOf(tenants)) {
    const [[tenant]] = group;
    for (const [metric, balance] of together(group)) {
      const { missing, until, changedAt, price } = balance;
      if (until === undefined || !isMismatch(balance)) continue;
      if (missing < 0n && now - changedAt < EXCESS_AFTER_MS) continue;
      const units = -Number(missing) / NANOS;
      const value = price === undefined ? undefined : Math.round(units * price.each * 100) / 100;
      const amount =
        price === undefined || value === undefined
          ? undefined
          : { value, currency: price.currency };
      const others = group.length === 1 ? '' : `; invoiced together: ${namesOf(group)}`;
      const cause = `${causeOf(metric, balance, unpriced)}${others}`;
      const difference = signedFromNanos(-missing);
      const mismatch = { tenant, metric, difference, until, cause, amount };
      found.push({ size: Math.abs(value ?? units), mismatch });
    }
  }
  return found.toSorted((a, b) => b.size - a.size).map(({ mismatch }) => mismatch);
}

function namesOf(group: readonly (readonly [id: string, tenant: unknown])[]): string {
  const ids = group.map(([id]) => id).toSorted();
  const more = ids.length - MAX_NAMES;
  return `${ids.slice(0, MAX_NAMES).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

export function invoiceReport(
  mismatches: readonly InvoiceMismatch[],
  totals: Omit<InvoiceReport, 'differing' | 'examples'>,
): InvoiceReport {
  return { ...totals, differing: mismatches.length, examples: mismatches.slice(0, MAX_EXAMPLES) };
}

function causeOf(metric: string, balance: Balance, unpriced: readonly UnpricedUsage[]): string {
  const { missing, late, hole, invoiced, prices } = balance;
  if (missing < 0n) {
    if (late < 0n) return 'usage was corrected after its invoice was final';
    return prices !== undefined
      ? `${prices.length} prices charge it at the same time, ${prices.join(' and ')} a unit: more than one subscription, contract or charge includes it`
      : 'more is invoiced than was delivered: two subscriptions or contracts cover it, or somebody else sends usage of this customer';
  }
  if (late >= missing) return 'the usage arrived after its invoice was final';
  const kind = unpriced.find((one) => one.metric === metric);
  if (kind !== undefined) {
    const what = kind.sku === undefined ? 'it' : `"${kind.sku}"`;
    return `plan "${kind.plan}" has no price for ${what}`;
  }
  if (hole !== undefined) {
    const end = formatInstant(hole.to);
    const stretch =
      hole.from === undefined ? `before ${end}` : `from ${formatInstant(hole.from)} to ${end}`;
    return `no invoice covers usage ${stretch}: no subscription, contract or price existed then`;
  }
  if (invoiced === 0n) {
    return 'no invoice has a line for it: nothing prices it, or no subscription or contract covered it';
  }
  return late > 0n
    ? 'part of the usage arrived after its invoice was final'
    : 'the plan or its prices changed during the period, or usage arrived after the invoice was final';
}
