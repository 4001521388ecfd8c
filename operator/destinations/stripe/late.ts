import { isNegative } from '../../model/correction.ts';
import type { UsageEvent } from '../../model/event.ts';
import { least } from '../../model/extremes.ts';
import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { FailedStep } from '../failed-step.ts';
import { type ApiProblem, failedStep } from '../json-api/answer.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import {
  decimalsOf,
  type LateBiller,
  type LateLine,
  type LateOutcome,
  type LatePrice,
  type LatePricing,
} from '../late.ts';
import { type StripeCustomers, TENANT_KEY } from './customers.ts';
import { FINAL, invoiceLines } from './invoices.ts';
import { amountParams, isTaxedTwice, lineTerms } from './late-terms.ts';
import { meterName, type StripeMeters } from './meters.ts';
import { readPrice } from './prices.ts';
import type { StripeClient } from './stripe-client.ts';
import { readSubscription } from './subscription.ts';

/** The metadata key with the id of the late line. */
export const LATE_KEY = 'meterfeed_late';
/** The time of an invoice may be a little before the end of its period. */
const TOLERANCE_SECONDS = 3_600;
/** Statuses of subscriptions that make a next invoice. */
const INVOICING = new Set(['active', 'trialing', 'past_due']);

/** The charge of a meter on a line of a final invoice. */
interface ChargedLine {
  readonly meter: string;
  /** Seconds since the epoch: `[from, to)`. */
  readonly from: number;
  readonly to: number;
  readonly price: LatePrice | string;
  /** Why Stripe cannot credit a part of it; undefined where it can. */
  readonly creditProblem: string | undefined;
}

/**
 * Bills late usage at Stripe: by an invoice item for the next invoice, or by a credit note for the
 * invoice of its time. Stripe forgets idempotency keys after a day, so earlier results are found by
 * their metadata.
 */
export class StripeLate implements LateBiller {
  readonly #client: StripeClient;
  readonly #customers: StripeCustomers;
  readonly #meters: Pick<StripeMeters, 'find'>;
  readonly #splitBy: readonly string[];

  constructor(
    client: StripeClient,
    customers: StripeCustomers,
    meters: Pick<StripeMeters, 'find'>,
    splitBy: readonly string[],
  ) {
    this.#client = client;
    this.#customers = customers;
    this.#meters = meters;
    this.#splitBy = splitBy;
  }

  async price(
    tenant: Tenant,
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly LatePricing[]> {
    const customer = await this.#customerOf(tenant, signal);
    if (typeof customer !== 'string') return events.map(() => customer);
    const earliest = least(events.map(({ window_start }) => Date.parse(window_start)));
    const lines = await this.#chargedSince(customer, Math.floor(earliest / 1000), signal);
    if ('reason' in lines) return events.map(() => failedStep(lines));
    return events.map((event) => {
      const meter = this.#meters.find(meterName(event, this.#splitBy))?.id;
      const at = Date.parse(event.window_start) / 1000;
      const line = lines.find((one) => one.meter === meter && one.from <= at && at < one.to);
      if (line === undefined) {
        const reason = `no line of a final invoice has a price for it: metric: ${quote(event.metric)}, window_start: ${quote(event.window_start)}; enter it there by hand and discard it`;
        return { kind: 'rejected', reason };
      }
      const { price, creditProblem } = line;
      if (typeof price === 'string') return { kind: 'rejected', reason: price };
      return creditProblem !== undefined && isNegative(event.quantity)
        ? { kind: 'rejected', reason: creditProblem }
        : { kind: 'priced', price };
    });
  }

  async bill(tenant: Tenant, line: LateLine, signal: AbortSignal): Promise<LateOutcome> {
    const customer = await this.#customerOf(tenant, signal);
    if (typeof customer !== 'string') return customer;
    return line.way === 'credit'
      ? this.#credit(tenant, line, signal)
      : this.#addItem(tenant, customer, line, signal);
  }

  async #addItem(
    tenant: Tenant,
    customer: string,
    line: LateLine,
    signal: AbortSignal,
  ): Promise<LateOutcome> {
    const client = this.#client;
    const made = await client.list('/v1/invoiceitems', { customer }, signal);
    const found = foundIn(made, line);
    if (found !== undefined) return found;
    const terms = await lineTerms(client, line, signal);
    if ('reason' in terms) return terms;
    // Stripe applies no discounts to negative items, and has no negative price that could bear a
    // tax.
    if (line.minor < 0n && !terms.isPlain) return this.#credit(tenant, line, signal);
    const subscriptions = await client.list('/v1/subscriptions', { customer }, signal);
    if (subscriptions.kind !== 'list') return failedStep(subscriptions);
    const { currency } = line.price;
    const makesNext = subscriptions.items
      .map(readSubscription)
      .some((one) => INVOICING.has(one.status) && one.currency === currency);
    if (!makesNext) {
      const reason = `customer ${customer} has no subscription in ${currency} that makes a next invoice`;
      return { kind: 'rejected', reason };
    }
    const params = {
      customer,
      ...amountParams(line, terms),
      description: line.text,
      period: { start: String(line.from / 1000), end: String(line.to / 1000) },
      metadata: { [LATE_KEY]: line.id, [TENANT_KEY]: tenant.id },
    };
    return billed(await client.create('/v1/invoiceitems', params, signal, line.id));
  }

  /**
   * Creates a credit note for the amount of Stripe's preview: with its taxes, and without the
   * discounts and prepaid credits of the invoice. A paid amount returns to the customer's balance,
   * which reduces the next invoices.
   */
  async #credit(tenant: Tenant, line: LateLine, signal: AbortSignal): Promise<LateOutcome> {
    const client = this.#client;
    const { invoice } = line.price;
    const made = await client.list('/v1/credit_notes', { invoice }, signal);
    const found = foundIn(made, line);
    if (found !== undefined) return found;
    const lines = [
      {
        type: 'invoice_line_item',
        invoice_line_item: line.price.line,
        amount: String(-line.minor),
      },
    ];
    const preview = await client.get('/v1/credit_notes/preview', { invoice, lines }, signal);
    if (preview.kind !== 'ok') return failedStep(preview);
    const paid = preview.body['post_payment_amount'];
    if (typeof paid !== 'number') {
      return { kind: 'retry', reason: 'the preview of a credit note has no post_payment_amount' };
    }
    const params = {
      invoice,
      memo: line.text,
      lines,
      ...(paid > 0 && { credit_amount: paid }),
      metadata: { [LATE_KEY]: line.id, [TENANT_KEY]: tenant.id },
    };
    return billed(await client.create('/v1/credit_notes', params, signal, line.id));
  }

  async #customerOf(tenant: Tenant, signal: AbortSignal): Promise<string | FailedStep> {
    const found = await this.#customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (found.kind === 'none') {
      return { kind: 'rejected', reason: 'Stripe has no customer of this tenant' };
    }
    // A customer that pays for several tenants also pays for late usage of each.
    return found.kind === 'customer' ? found.id : found;
  }

  /** Returns the meter charges of final invoices since a moment, newest first. */
  async #chargedSince(
    customer: string,
    since: number,
    signal: AbortSignal,
  ): Promise<readonly ChargedLine[] | ApiProblem> {
    const client = this.#client;
    const created = { gte: Math.max(0, since - TOLERANCE_SECONDS) };
    const listed = await client.list('/v1/invoices', { customer, created }, signal);
    if (listed.kind !== 'list') return listed;
    const found: ChargedLine[] = [];
    const prices = new Map<string, JsonObject>();
    for (const invoice of listed.items) {
      if (!FINAL.has(textOf(invoice, 'status') ?? '')) continue;
      const lines = await invoiceLines(client, invoice, signal);
      if ('reason' in lines) return lines;
      for (const line of lines) {
        const id = textOf(objectOf(objectOf(line, 'pricing'), 'price_details'), 'price');
        if (id === undefined) continue;
        if (!prices.has(id)) {
          const answer = await client.get(`/v1/prices/${encodeURIComponent(id)}`, {}, signal);
          if (answer.kind !== 'ok') return answer;
          prices.set(id, answer.body);
        }
        const meter = readPrice(prices.get(id) ?? {})?.meter;
        if (meter === undefined) continue;
        const [from, to] = ['start', 'end'].map((end) => Number(objectOf(line, 'period')[end]));
        if (from === undefined || to === undefined) continue;
        const price = priceOf(invoice, line, prices.get(id) ?? {});
        const creditProblem = isTaxedTwice(invoice, line) ? taxReason(invoice) : undefined;
        found.push({ meter, from, to, price, creditProblem });
      }
    }
    return found;
  }
}

/** Returns the price of one unit on a line, or why it has none. */
function priceOf(invoice: JsonObject, line: JsonObject, price: JsonObject): LatePrice | string {
  const currency = (textOf(line, 'currency') ?? '').toUpperCase();
  const cents = textOf(objectOf(line, 'pricing'), 'unit_amount_decimal');
  const isFlat =
    (textOf(price, 'billing_scheme') ?? 'per_unit') === 'per_unit' &&
    Object.keys(objectOf(price, 'transform_quantity')).length === 0;
  const each = cents === undefined ? undefined : pointMoved(cents, decimalsOf(currency));
  const [invoiceId = '', lineId = ''] = [textOf(invoice, 'id'), textOf(line, 'id')];
  if (!isFlat || each === undefined) {
    const id = textOf(price, 'id') ?? '';
    return `price ${id} has no single price a unit: invoice: ${quote(invoiceId)}; enter it there by hand and discard it`;
  }
  return {
    key: JSON.stringify([invoiceId, lineId]),
    each,
    currency,
    invoice: invoiceId,
    line: lineId,
    number: textOf(invoice, 'number'),
  };
}

function taxReason(invoice: JsonObject): string {
  const id = quote(textOf(invoice, 'id') ?? '');
  return `its price includes tax, which Stripe Tax would credit once more on top: invoice: ${id}; credit it there by hand and discard it`;
}

/** Divides plain decimal text by a power of ten, exactly; undefined for other text. */
export function pointMoved(text: string, places: number): string | undefined {
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (match === null) return undefined;
  const [, integer = '', fraction = ''] = match;
  const digits = integer.padStart(places + 1, '0');
  const point = digits.length - places;
  const decimals = (digits.slice(point) + fraction).replace(/0+$/, '');
  return decimals === '' ? digits.slice(0, point) : `${digits.slice(0, point)}.${decimals}`;
}

/** Returns the result of an earlier attempt for a line. */
function foundIn(
  listed: Awaited<ReturnType<StripeClient['list']>>,
  { id }: LateLine,
): LateOutcome | undefined {
  if (listed.kind !== 'list') return failedStep(listed);
  const made = listed.items.find((item) => objectOf(item, 'metadata')[LATE_KEY] === id);
  return made && { kind: 'billed', reference: textOf(made, 'id') ?? '' };
}

function billed(answer: Awaited<ReturnType<StripeClient['create']>>): LateOutcome {
  if (answer.kind !== 'ok') return failedStep(answer);
  const reference = textOf(answer.body, 'id');
  return reference === undefined
    ? { kind: 'retry', reason: 'the answer has no id' }
    : { kind: 'billed', reference };
}
