import { roundToSigned } from '../../model/decimal.ts';
import { greatest } from '../../model/extremes.ts';
import type { FinalInvoice, InvoicesOutcome, OpenUsage, UsageLine } from '../invoices.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf, timeOf } from '../json.ts';
import type { MetronomeMetric } from './billable-metrics.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { listProducts, type Product } from './products.ts';

/** Usual longest statement: one that became final at a moment began at most this much earlier. */
const LONGEST_STATEMENT_MS = 100 * 86_400_000;
const DAY_MS = 86_400_000;

/**
 * Returns a customer's usage invoices
 * (https://docs.metronome.com/invoice-customers/how-invoicing-works/). A draft still takes usage, a
 * finalized invoice never changes, and a voided one bills nothing.
 */
export async function listInvoices(
  client: MetronomeClient,
  customerId: string,
  metrics: ReadonlyMap<string, MetronomeMetric>,
  since: number,
  signal: AbortSignal,
): Promise<InvoicesOutcome> {
  const listed = await listProducts(client, signal, 'ALL');
  if (listed.kind !== 'products') return failure(listed);
  const codes = codesByProduct(listed.products, metrics);
  const start = Math.max(0, since - LONGEST_STATEMENT_MS);
  const from = new Date(start - (start % DAY_MS)).toISOString();
  // Payments of commits have no usage, and consolidated invoices repeat that of others.
  const query = new URLSearchParams({ starting_on: from, type: 'USAGE' });
  const path = `/v1/customers/${encodeURIComponent(customerId)}/invoices?${query.toString()}`;
  const list = await client.list(path, undefined, signal);
  if (list.kind !== 'list') return failure(list);
  const invoices: FinalInvoice[] = [];
  const open: OpenUsage[] = [];
  for (const item of list.items.filter(isUsage)) {
    const stretch = { from: timeOf(item, 'start_timestamp'), to: timeOf(item, 'end_timestamp') };
    if (stretch.from === undefined || stretch.to === undefined) continue;
    const status = textOf(item, 'status');
    if (status === 'DRAFT') open.push({ from: stretch.from });
    const finalizedAt = timeOf(item, 'issued_at');
    if (status !== 'FINALIZED' || finalizedAt === undefined || finalizedAt < since) continue;
    const { from: begin, to } = stretch;
    invoices.push(readInvoice(item, { finalizedAt, from: begin, to }, codes));
  }
  return { kind: 'invoices', invoices, open, payer: customerId };
}

export type InvoicedUntil =
  | {
      readonly kind: 'until';
      /** End of the last statement that is no draft, ms since the epoch; 0 without one. */
      readonly until: number;
    }
  | ApiProblem;

/** Returns until when final invoices cover the usage of some contracts of a customer. */
export async function invoicedUntil(
  client: MetronomeClient,
  customerId: string,
  contracts: readonly string[],
  signal: AbortSignal,
): Promise<InvoicedUntil> {
  if (contracts.length === 0) return { kind: 'until', until: 0 };
  const path = `/v1/customers/${encodeURIComponent(customerId)}/invoices?type=USAGE`;
  const list = await client.list(path, undefined, signal);
  if (list.kind !== 'list') return list;
  const final = list.items.filter(
    (item) =>
      isUsage(item) &&
      textOf(item, 'status') !== 'DRAFT' &&
      contracts.includes(textOf(item, 'contract_id') ?? ''),
  );
  const ends = final.map((item) => timeOf(item, 'end_timestamp') ?? 0);
  return { kind: 'until', until: greatest([0, ...ends]) };
}

function isUsage(item: JsonObject): boolean {
  return textOf(item, 'type') === 'USAGE';
}

function readInvoice(
  item: JsonObject,
  { finalizedAt, from, to }: { finalizedAt: number; from: number; to: number },
  codes: ReadonlyMap<string, string>,
): FinalInvoice {
  const unit = textOf(objectOf(item, 'credit_type'), 'name') ?? '';
  const scale = unit.includes('(cents)') ? 0.01 : 1;
  const lines = objectsOf(item, 'line_items').flatMap((line): readonly UsageLine[] => {
    // An applied commit or credit is a line with the product and the quantity of the usage.
    if (textOf(line, 'type') !== 'usage') return [];
    const metric = codes.get(textOf(line, 'product_id') ?? '');
    const quantity = decimalOf(line['quantity']);
    if (metric === undefined || quantity === undefined) return [];
    const { total } = line;
    const amount = typeof total === 'number' ? decimalOf(total * scale) : undefined;
    const dimensions = Object.fromEntries(
      Object.entries(objectOf(line, 'pricing_group_values')).map(([key, value]) => [
        key,
        String(value),
      ]),
    );
    const { sku } = dimensions;
    return [{ metric, from, to, quantity, dimensions, sku, amount }];
  });
  const currency = /^[A-Za-z]{3}\b/.exec(unit)?.[0].toUpperCase();
  const id = textOf(item, 'id') ?? '';
  return { id, finalizedAt, until: to, lines, currency };
}

/** Returns our metric of each product, including former ones. */
function codesByProduct(
  products: readonly Product[],
  metrics: ReadonlyMap<string, MetronomeMetric>,
): ReadonlyMap<string, string> {
  const codes = new Map(
    [...metrics.values()].flatMap(({ code, ids }) => ids.map((id) => [id, code])),
  );
  const found = new Map<string, string>();
  for (const product of products) {
    const code = product.metrics
      .map(({ id }) => codes.get(id))
      .findLast((one) => one !== undefined);
    if (code !== undefined) found.set(product.id, code);
  }
  return found;
}

/** Metronome's numbers are doubles. */
function decimalOf(value: unknown): string | undefined {
  return typeof value === 'number' ? roundToSigned(String(value)) : undefined;
}

function failure({ reason }: ApiProblem): InvoicesOutcome {
  return { kind: 'retry', reason };
}
