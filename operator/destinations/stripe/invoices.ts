import { parseSigned } from '../../model/decimal.ts';
import { greatest } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type {
  FinalInvoice,
  Invoices,
  InvoicesOutcome,
  InvoicesQuery,
  OpenUsage,
  UsageLine,
} from '../invoices.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { decimalsOf } from '../late.ts';
import type { StripeCustomers } from './customers.ts';
import type { StripeMeters } from './meters.ts';
import { isMeterOf } from './meters.ts';
import { readPrice } from './prices.ts';
import type { StripeClient } from './stripe-client.ts';

/** Statuses of invoices that bill and never change. */
export const FINAL = new Set(['open', 'paid', 'uncollectible']);
/** Stripe finalizes a draft an hour after its creation, or up to three days later by rule. */
const DRAFT_MS = 4 * 86_400_000;

/** A customer's invoices (docs/how-to/destinations/stripe.md#invoices). */
export class StripeInvoices implements Invoices {
  readonly closedPeriods =
    'Stripe adds it up in the meter and puts it on no invoice, not even the next one';
  readonly #options;
  /** Meters by price, archived prices included; undefined where a price has none. */
  readonly #meterOfPrice = new Map<string, string | undefined>();

  constructor(options: {
    readonly client: StripeClient;
    readonly customers: StripeCustomers;
    readonly meters: Pick<StripeMeters, 'all'>;
    /** Codes of the metrics that events are sent for. */
    readonly metrics: () => Iterable<string>;
    readonly clock: Clock;
    /** Receives the problems of a customer's drafts after each read. */
    readonly drafts: (customer: string, problems: readonly string[]) => void;
  }) {
    this.#options = options;
  }

  /** Returns final invoices. Drafts are still to come, and voided invoices bill nothing. */
  async list({ tenant, since }: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome> {
    const { client, customers, clock } = this.#options;
    const found = await customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (found.kind === 'none') {
      return { kind: 'unsupported', reason: 'Stripe has no customer of this tenant' };
    }
    if (found.kind !== 'customer') return { kind: 'retry', reason: found.reason };
    const { id: customer } = found;
    // List drafts of any age, since only a person finalizes a stopped draft. List them first: a
    // draft that becomes final in between is then in both lists.
    const drafts = await client.list('/v1/invoices', { customer, status: 'draft' }, signal);
    if (drafts.kind !== 'list') return failure(drafts);
    const created = { gte: Math.max(0, Math.floor((since - DRAFT_MS) / 1000)) };
    const listed = await client.list('/v1/invoices', { customer, created }, signal);
    if (listed.kind !== 'list') return failure(listed);
    const subscriptions = await client.list('/v1/subscriptions', { customer }, signal);
    if (subscriptions.kind !== 'list') return failure(subscriptions);
    const open: OpenUsage[] = subscriptions.items.flatMap((item) => this.#runningOf(item));
    const invoices: FinalInvoice[] = [];
    const problems: string[] = [];
    const final = listed.items.filter((item) => FINAL.has(textOf(item, 'status') ?? ''));
    for (const item of [...drafts.items, ...final]) {
      const usage = await this.#usageOf(item, signal);
      if ('reason' in usage) return failure(usage);
      if (usage.length === 0) continue;
      if (textOf(item, 'status') === 'draft') {
        open.push(...usage.map(({ metric, from }) => ({ metric, from })));
        problems.push(...draftProblems(item, clock.now()));
      } else invoices.push(readInvoice(item, usage));
    }
    this.#options.drafts(customer, problems);
    const known = invoices.filter(({ finalizedAt }) => finalizedAt >= since);
    return { kind: 'invoices', invoices: known, open, payer: customer };
  }

  async #usageOf(
    invoice: JsonObject,
    signal: AbortSignal,
  ): Promise<readonly UsageLine[] | ApiProblem> {
    const lines = await invoiceLines(this.#options.client, invoice, signal);
    if ('reason' in lines) return lines;
    const usage: UsageLine[] = [];
    for (const line of lines) {
      const read = await this.#readLine(line, signal);
      if (read !== undefined && 'reason' in read) return read;
      if (read !== undefined) usage.push(read);
    }
    return usage;
  }

  async #readLine(
    line: JsonObject,
    signal: AbortSignal,
  ): Promise<UsageLine | ApiProblem | undefined> {
    const period = objectOf(line, 'period');
    const [from, to] = [period['start'], period['end']].map((at) => Number(at) * 1000);
    const quantity = parseSigned(textOf(line, 'quantity_decimal') ?? String(line['quantity']));
    const price = textOf(objectOf(objectOf(line, 'pricing'), 'price_details'), 'price');
    if (from === undefined || to === undefined || Number.isNaN(from + to)) return undefined;
    if (quantity === undefined || price === undefined) return undefined;
    const meter = await this.#meterOf(price, signal);
    if (meter !== undefined && 'reason' in meter) return meter;
    const metric = this.#metricOf(meter?.id);
    if (metric === undefined) return undefined;
    const amount = amountOf(line);
    return { metric, from, to, quantity, amount };
  }

  async #meterOf(
    price: string,
    signal: AbortSignal,
  ): Promise<{ readonly id: string | undefined } | ApiProblem> {
    if (this.#meterOfPrice.has(price)) return { id: this.#meterOfPrice.get(price) };
    const path = `/v1/prices/${encodeURIComponent(price)}`;
    const answer = await this.#options.client.get(path, {}, signal);
    if (answer.kind !== 'ok') return answer;
    const id = readPrice(answer.body)?.meter;
    this.#meterOfPrice.set(price, id);
    return { id };
  }

  /** Returns the metered usage that the invoice of a current period will have. */
  #runningOf(subscription: JsonObject): readonly OpenUsage[] {
    return objectsOf(objectOf(subscription, 'items'), 'data').flatMap((item) => {
      const metric = this.#metricOf(readPrice(objectOf(item, 'price'))?.meter);
      const start = Number(item['current_period_start'] ?? subscription['current_period_start']);
      return metric === undefined || Number.isNaN(start) ? [] : [{ metric, from: start * 1000 }];
    });
  }

  #metricOf(meter: string | undefined): string | undefined {
    const { meters, metrics } = this.#options;
    const name = meters.all().find(({ id }) => id === meter)?.eventName;
    if (name === undefined) return undefined;
    const codes = [...metrics()].filter((code) => isMeterOf(name, code));
    return codes.toSorted((a, b) => b.length - a.length)[0];
  }
}

/** Returns all lines of an invoice; the first ones come with it. */
export async function invoiceLines(
  client: StripeClient,
  invoice: JsonObject,
  signal: AbortSignal,
): Promise<readonly JsonObject[] | ApiProblem> {
  const lines = objectOf(invoice, 'lines');
  if (lines['has_more'] !== true) return objectsOf(lines, 'data');
  const path = `/v1/invoices/${encodeURIComponent(textOf(invoice, 'id') ?? '')}/lines`;
  const list = await client.list(path, {}, signal);
  return list.kind === 'list' ? list.items : list;
}

/** Returns why a draft may never be charged. */
function draftProblems(draft: JsonObject, now: number): readonly string[] {
  const what = `draft ${textOf(draft, 'id')} of customer ${textOf(draft, 'customer')}`;
  const effect = 'nobody is charged for its usage until you finalize it at Stripe';
  if (draft['auto_advance'] === false) return [`${what} has auto_advance: false: ${effect}`];
  const created = Number(draft['created']) * 1000;
  if (now - created <= DRAFT_MS) return [];
  const since = new Date(created).toISOString();
  return [`${what} is not final four days after it was made on ${since}: ${effect}`];
}

function readInvoice(item: JsonObject, lines: readonly UsageLine[]): FinalInvoice {
  const finalized = Number(objectOf(item, 'status_transitions')['finalized_at'] ?? item['created']);
  const currency = textOf(item, 'currency')?.toUpperCase();
  return {
    id: textOf(item, 'id') ?? '',
    finalizedAt: finalized * 1000,
    until: greatest(lines.map(({ to }) => to)),
    lines,
    number: textOf(item, 'number'),
    currency,
  };
}

/** Stripe's amounts are in the smallest unit of the currency. */
function amountOf(line: JsonObject): string | undefined {
  const { amount } = line;
  if (typeof amount !== 'number') return undefined;
  return String(amount / 10 ** decimalsOf(textOf(line, 'currency') ?? ''));
}

function failure({ reason }: ApiProblem): InvoicesOutcome {
  return { kind: 'retry', reason };
}
