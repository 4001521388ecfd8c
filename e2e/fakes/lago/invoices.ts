import type { LagoState } from './state.ts';
import { chargesOf } from './usage.ts';

/** A line of an invoice as the stand-in would write it now. */
export interface InvoiceLine {
  readonly customer: string;
  readonly name: string;
  readonly plan: string;
  readonly status: string;
  readonly metric: string;
  readonly units: string;
  readonly events: number;
  readonly amountCents: number;
  readonly currency: string;
}

/** What every customer would be billed now, a line for each metric with usage. */
export function invoiceLines(state: LagoState): readonly InvoiceLine[] {
  return state.subscriptions
    .toSorted((a, b) => (a.external_customer_id < b.external_customer_id ? -1 : 1))
    .flatMap((subscription) =>
      chargesOf(state, subscription)
        .filter(({ events }) => events > 0)
        .map(({ charge, units, events, amountCents }) => ({
          customer: subscription.external_customer_id,
          name: state.customers.get(subscription.external_customer_id)?.name ?? '',
          plan: subscription.plan_code,
          status: subscription.status,
          metric: charge.billable_metric_code,
          units,
          events,
          amountCents,
          currency: state.plans.get(subscription.plan_code)?.amount_currency ?? '',
        })),
    );
}

/** The invoices as a page for people. */
export function invoicePage(state: LagoState): string {
  const rows = invoiceLines(state).map(
    (line) =>
      `<tr><td>${escape(line.customer)}<td>${escape(line.name)}<td>${escape(line.plan)}` +
      `<td>${line.status}<td>${escape(line.metric)}<td class="n">${line.units}` +
      `<td class="n">${line.events}<td class="n">${(line.amountCents / 100).toFixed(2)} ${escape(line.currency)}`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Invoices</title>
<style>body{font:14px system-ui;margin:2em}table{border-collapse:collapse}
td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:left}.n{text-align:right}</style>
<h1>What would be invoiced now</h1>
<p>A stand-in for Lago, on this machine. Prices are 0 until they are set in the plan.</p>
<table><tr><th>Customer<th>Name<th>Plan<th>Subscription<th>Metric<th>Units<th>Events<th>Amount
${rows.join('\n')}</table></html>
`;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
