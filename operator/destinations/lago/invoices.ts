import { greatest, least } from '../../model/extremes.ts';
import { roundToSigned } from '../../model/decimal.ts';
import type {
  FinalInvoice,
  Invoices,
  InvoicesOutcome,
  InvoicesQuery,
  OpenUsage,
  UsageLine,
} from '../invoices.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf, timeOf } from '../json.ts';
import { idsOf, type LagoIds } from './customers.ts';
import type { LagoClient } from './lago-client.ts';
import { findActive } from './subscriptions.ts';
import { mayHaveUsage, usageFees, type UsageFees } from './usage-fees.ts';
import type { TimeRange } from '../../model/window.ts';

const DAY_MS = 86_400_000;

/**
 * The invoices of a tenant's subscriptions. A draft still takes usage, a finalized invoice never
 * changes, and a voided one bills nothing
 * (docs/how-to/destinations/lago.md#what-lago-does-not-bill).
 */
export class LagoInvoices implements Invoices {
  readonly closedPeriods =
    'Lago accepts it and puts it on no invoice: a finalized invoice does not change, and the next one begins after it';
  readonly #client: LagoClient;

  constructor(client: LagoClient) {
    this.#client = client;
  }

  async list({ tenant, since }: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome> {
    const client = this.#client;
    const { customer, subscription } = idsOf(tenant);
    const query = new URLSearchParams({
      external_customer_id: customer,
      issuing_date_from: new Date(Math.max(0, since - DAY_MS)).toISOString().slice(0, 10),
    });
    const list = await client.list(`/invoices?${query.toString()}`, 'invoices', signal);
    if (list.kind !== 'list') return failure(list);
    const final: JsonObject[] = [];
    const open: OpenUsage[] = [];
    for (const { lago_id: id, status } of list.items.filter(mayHaveUsage)) {
      if (typeof id !== 'string' || (status !== 'finalized' && status !== 'draft')) continue;
      // The list has neither the lines nor the periods of an invoice.
      const answer = await client.get(`/invoices/${encodeURIComponent(id)}`, signal);
      if (answer.kind !== 'ok') return failure(answer);
      const invoice = objectOf(answer.body, 'invoice');
      if (status === 'finalized') final.push(invoice);
      else open.push(...periodsOf(invoice, subscription).map(({ from }) => ({ from })));
    }
    const invoices = usageFees(final, subscription).flatMap((one) => {
      const periods = periodsOf(one.invoice, subscription);
      return periods.length === 0 ? [] : [readInvoice(one, periods)];
    });
    const active = await findActive(client, subscription, signal);
    if (active.kind === 'subscription') {
      const { periodStartedAt, startedAt } = active.subscription;
      open.push({ from: afterChange(periodStartedAt ?? startedAt, invoices) });
    } else if (active.kind !== 'none') return failure(active);
    const due = invoices.filter(({ finalizedAt }) => finalizedAt >= since);
    return { kind: 'invoices', invoices: due, open, payer: subscription };
  }
}

/**
 * Returns the time ranges of a subscription with draft invoices. Lago still invoices usage in them
 * that arrives now, also for a plan that has ended
 * (docs/how-to/destinations/lago.md#changes-of-plan).
 */
export async function draftPeriods(
  client: LagoClient,
  { customer, subscription }: Pick<LagoIds, 'customer' | 'subscription'>,
  signal: AbortSignal,
): Promise<readonly TimeRange[] | ApiProblem> {
  const query = new URLSearchParams({ external_customer_id: customer, status: 'draft' });
  const list = await client.list(`/invoices?${query.toString()}`, 'invoices', signal);
  if (list.kind !== 'list') return list;
  const periods: TimeRange[] = [];
  for (const { lago_id: id } of list.items) {
    const answer = await client.get(`/invoices/${encodeURIComponent(String(id))}`, signal);
    if (answer.kind !== 'ok') return answer;
    periods.push(...periodsOf(objectOf(answer.body, 'invoice'), subscription));
  }
  return periods;
}

/** The second of a change of plan is in both plans' periods. Its usage belongs to the old plan. */
function afterChange(from: number, invoices: readonly FinalInvoice[]): number {
  const next = afterSecond(from);
  return invoices.some(({ until }) => until > from && until <= next) ? next : from;
}

/** Returns the invoiced time ranges of a subscription, one for each of its plans. */
function periodsOf(invoice: JsonObject, subscription: string): readonly TimeRange[] {
  return objectsOf(invoice, 'billing_periods')
    .filter((period) => textOf(period, 'external_subscription_id') === subscription)
    .flatMap((period) => {
      const from = timeOf(period, 'charges_from_datetime');
      const last = timeOf(period, 'charges_to_datetime');
      return from === undefined || last === undefined ? [] : [{ from, to: afterSecond(last) }];
    });
}

function readInvoice({ invoice, fees }: UsageFees, periods: readonly TimeRange[]): FinalInvoice {
  const until = greatest(periods.map(({ to }) => to));
  const complete = { from: least(periods.map(({ from }) => from)), to: until };
  const lines = fees.flatMap((fee): readonly UsageLine[] => {
    const item = objectOf(fee, 'item');
    const metric = textOf(item, 'code');
    const quantity = decimalOf(fee['units']);
    if (metric === undefined || quantity === undefined) return [];
    const dimensions = { ...singles(objectOf(item, 'filters')), ...texts(item, 'grouped_by') };
    const from = timeOf(fee, 'from_date') ?? complete.from;
    const last = timeOf(fee, 'to_date');
    const to = last === undefined ? complete.to : afterSecond(last);
    const { sku } = dimensions;
    const amount = decimalOf(fee['precise_amount']);
    return [{ metric, from, to, quantity, dimensions, sku, amount }];
  });
  return {
    id: textOf(invoice, 'lago_id') ?? '',
    finalizedAt: finalizedAtOf(invoice),
    until,
    lines,
    number: textOf(invoice, 'number'),
    currency: textOf(invoice, 'currency'),
  };
}

/** Returns when an invoice became final: its issuing date with grace, else its creation. */
function finalizedAtOf(invoice: JsonObject): number {
  const issued = timeOf(invoice, 'issuing_date') ?? 0;
  return Math.max(timeOf(invoice, 'created_at') ?? 0, issued);
}

/** Returns the values of a charge filter, for keys with exactly one value. */
function singles(filters: JsonObject): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(filters).flatMap(([key, values]) => {
      const [only, ...others] = Array.isArray(values) ? (values as unknown[]) : [];
      return typeof only === 'string' && others.length === 0 ? [[key, only]] : [];
    }),
  );
}

function texts(object: JsonObject, field: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(objectOf(object, field)).flatMap(([key, value]) =>
      typeof value === 'string' ? [[key, value]] : [],
    ),
  );
}

/** A period includes both its ends, in full seconds. */
function afterSecond(last: number): number {
  return Math.floor(last / 1_000) * 1_000 + 1_000;
}

/** Lago's quantities are text, its amounts are doubles. */
function decimalOf(value: unknown): string | undefined {
  return typeof value === 'number' || typeof value === 'string'
    ? roundToSigned(String(value))
    : undefined;
}

function failure({ kind, reason }: ApiProblem): InvoicesOutcome {
  return { kind: kind === 'refused' ? 'unsupported' : 'retry', reason };
}
