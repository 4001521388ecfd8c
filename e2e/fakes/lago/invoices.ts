import { textOf, rounded } from '../exact.ts';
import { periodAt } from './billing-period.ts';
import type { Fee, Invoice, LagoState, Subscription } from './state.ts';
import { chargesOf, startOf } from './usage.ts';

/** An invoice, or the current amount of a subscription's running period. */
export interface Bill {
  readonly customer: string;
  readonly name: string;
  /** The invoice's number; undefined for a running period. */
  readonly number: string | undefined;
  readonly status: Invoice['status'] | 'running';
  /** Milliseconds since the epoch; undefined outside all periods. */
  readonly from: number | undefined;
  readonly to: number | undefined;
  readonly currency: string;
  /** The sum of its lines. */
  readonly amountCents: number;
  readonly lines: readonly BillLine[];
}

/** The amount of one price. */
interface BillLine {
  /** The code of a metric, a plan or an add-on. */
  readonly code: string;
  readonly filters: Fee['filters'];
  /** Plain decimal text. */
  readonly units: string;
  readonly events: number;
  readonly amountCents: number;
}

/** Returns all invoices and all running periods with usage, by customer. */
export function billsOf(state: LagoState, at: number): readonly Bill[] {
  const active = state.subscriptions.filter(({ status }) => status === 'active');
  return [
    ...state.invoices.map((invoice) => invoiced(state, invoice)),
    ...active.map((subscription) => running(state, subscription, at)),
  ]
    .filter(({ lines }) => lines.length > 0)
    .toSorted((a, b) => compare(a.customer, b.customer) || (a.from ?? 0) - (b.from ?? 0));
}

function invoiced(state: LagoState, invoice: Invoice): Bill {
  const { customer, number, status, scopes, currency } = invoice;
  const lines = invoice.fees.map(({ code, filters, units, events, cents }) => ({
    code,
    filters,
    units: textOf(units),
    events: events.length,
    amountCents: rounded(cents),
  }));
  const [scope] = scopes;
  return bill(state, {
    customer,
    number,
    status,
    from: scope?.from,
    to: scope?.to,
    currency,
    lines,
  });
}

function running(state: LagoState, subscription: Subscription, at: number): Bill {
  const period = periodAt(state, subscription, at);
  const lines = chargesOf(state, subscription, period).flatMap(({ charge, fees }) =>
    fees.map(({ filter, ...fee }) => ({
      code: charge.billable_metric_code,
      filters: filter?.values ?? null,
      ...fee,
    })),
  );
  return bill(state, {
    customer: subscription.external_customer_id,
    number: undefined,
    status: 'running',
    from: Math.max(period.from, startOf(subscription)),
    to: at,
    currency: state.plans.get(subscription.plan_code)?.amount_currency ?? '',
    lines,
  });
}

function bill(state: LagoState, fields: Omit<Bill, 'name' | 'amountCents'>): Bill {
  const amountCents = fields.lines.reduce((sum, line) => sum + line.amountCents, 0);
  return { ...fields, name: state.customers.get(fields.customer)?.name ?? '', amountCents };
}

/** Returns the bills as a page for people: their amounts first, then their lines. */
export function invoicePage(state: LagoState, at: number): string {
  const bills = billsOf(state, at);
  const totals = [...Map.groupBy(bills, ({ currency }) => currency)].map(([currency, own]) =>
    money(
      own.reduce((sum, { amountCents }) => sum + amountCents, 0),
      currency,
    ),
  );
  const amounts = bills.map(
    (one, index) =>
      `<tr><td><a href="#${index}">${escape(one.name)}</a><td>${escape(one.customer)}` +
      `<td>${escape(titleOf(one))}<td class="n">${money(one.amountCents, one.currency)}`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Invoices</title>
<style>body{font:14px system-ui;margin:2em}table{border-collapse:collapse;margin-bottom:2em}
td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:left}
.n{text-align:right;white-space:nowrap}</style>
<h1>Invoices</h1>
<p>A stand-in for Lago, on this machine: what was invoiced, and what each running period comes to so far.</p>
<table><tr><th>Customer<th>Id<th>Invoice<th class="n">Amount
${amounts.join('\n')}
<tr><th colspan="3">All together<th class="n">${totals.join(', ')}</table>
${bills.map(linesTable).join('\n')}</html>
`;
}

function linesTable(own: Bill, index: number): string {
  const rows = own.lines.map(
    ({ code, filters, units, events, amountCents }) =>
      `<tr><td>${escape(code)}<td>${escape(filterText(filters))}<td class="n">${units}` +
      `<td class="n">${events}<td class="n">${money(amountCents, own.currency)}`,
  );
  return `<h2 id="${index}">${escape(own.name)}: ${escape(titleOf(own))}</h2>
<table><tr><th>Metric<th>Only for<th class="n">Units<th class="n">Events<th class="n">Amount
${rows.join('\n')}
<tr><th colspan="4">Sum<th class="n">${money(own.amountCents, own.currency)}</table>`;
}

function titleOf({ number, status, from, to }: Bill): string {
  if (number === undefined) return `so far, since ${day(from ?? 0)}`;
  if (from === undefined || to === undefined) return `${number}, ${status}`;
  return `${number}, ${status}, ${day(from)} to ${day(to)}`;
}

function filterText(filters: BillLine['filters']): string {
  const pairs = Object.entries(filters ?? {}).map(([key, all]) => `${key} ${all.join(' or ')}`);
  return pairs.join(', ');
}

function day(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function money(cents: number, currency: string): string {
  return `${(cents / 100).toFixed(2)} ${escape(currency)}`;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
