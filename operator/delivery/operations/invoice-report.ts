import type { UnpricedUsage } from '../../destinations/prices.ts';
import { signedFromNanos } from '../../model/decimal.ts';
import { formatInstant } from '../../model/window.ts';
import { type Balance, isMismatch, type TenantBalances } from './invoice-balance.ts';
import { payersOf, together } from './shared-payers.ts';

const NANOS = 1e9;
const MAX_EXAMPLES = 20;
/** Tenants that a cause names. */
const MAX_NAMES = 5;
/** What was delivered out of order shows as too much until the cursor has passed it. */
const EXCESS_AFTER_MS = 3_600_000;

/** How the invoices of a destination compare with what it was given. */
export interface InvoiceReport {
  /** Milliseconds since the epoch. */
  readonly comparedAt: number;
  /** Tenants of whom an invoice was compared. */
  readonly tenants: number;
  /** Tenants whose invoices could not be asked for, and why the first one's could not. */
  readonly unanswered: number;
  readonly problem?: string;
  /** Pairs of tenant and metric. */
  readonly differing: number;
  /** The twenty that differ most. */
  readonly examples: readonly InvoiceMismatch[];
}

export interface InvoiceMismatch {
  readonly tenant: string;
  readonly metric: string;
  /** What is invoiced − what was delivered, plain decimal text; negative is on no invoice. */
  readonly difference: string;
  /** About what that is worth, in the currency; absent where no price is known. */
  readonly amount?: { readonly value: number; readonly currency: string };
  /** Usage before that is closed, milliseconds since the epoch. */
  readonly until: number;
  /** For people: why, as far as can be told. */
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
  const rest = ids.length - MAX_NAMES;
  return `${ids.slice(0, MAX_NAMES).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

export function invoiceReport(
  mismatches: readonly InvoiceMismatch[],
  rest: Omit<InvoiceReport, 'differing' | 'examples'>,
): InvoiceReport {
  return { ...rest, differing: mismatches.length, examples: mismatches.slice(0, MAX_EXAMPLES) };
}

function causeOf(metric: string, balance: Balance, unpriced: readonly UnpricedUsage[]): string {
  const { missing, late, hole, invoiced, prices } = balance;
  if (missing < 0n) {
    if (late < 0n) return 'usage was corrected after its invoice was final';
    return prices !== undefined
      ? `${prices.length} prices charge it at once, at ${prices.join(' and ')} a unit: more than one subscription, contract or charge has it`
      : 'more is invoiced than was delivered: two subscriptions or contracts cover it, or somebody else sends usage of this customer';
  }
  if (late >= missing) return 'the usage came after its invoice was final';
  const kind = unpriced.find((one) => one.metric === metric);
  if (kind !== undefined) {
    const what = kind.sku === undefined ? 'it' : `"${kind.sku}"`;
    return `nobody has priced ${what} in plan "${kind.plan}"`;
  }
  if (hole !== undefined) {
    const end = formatInstant(hole.to);
    const stretch =
      hole.from === undefined ? `before ${end}` : `from ${formatInstant(hole.from)} to ${end}`;
    return `no invoice covers usage ${stretch}: no subscription, contract or price was there`;
  }
  if (invoiced === 0n) {
    return 'no invoice has a line for it: nothing prices it, or no subscription or contract covered it';
  }
  return late > 0n
    ? 'part of the usage came after its invoice was final'
    : 'the plan or its prices were changed while the period ran, or usage arrived after the invoice was final';
}
