import pLimit from 'p-limit';
import type { UsageEvent } from '../../model/event.ts';
import { least } from '../../model/extremes.ts';
import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { ApiAnswer, ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf, textsOf, timeOf } from '../json.ts';
import type { LateBiller, LateLine, LateOutcome, LatePrice, LatePricing } from '../late.ts';
import { idsOf, type LagoIds } from './customers.ts';
import { failedStep, isTaken, type LagoClient } from './lago-client.ts';
import { couponProblem, taxCodesOf } from './late-terms.ts';
import { ANY_VALUE } from './plans.ts';
import { lagoEvent } from './send-events.ts';
import { mayHaveUsage, usageFees, type UsageFees } from './usage-fees.ts';

const DAY_MS = 86_400_000;
const CONCURRENT_QUESTIONS = 4;
/** The add-on on one-off invoices of late usage. */
const ADD_ON = 'meterfeed_late_usage';
/**
 * The wait after a lost answer. Lago may still carry out the request, and an earlier attempt would
 * not find its result.
 */
const SETTLED_MS = 300_000;

/**
 * Bills late usage at Lago: by a one-off invoice, since Lago adds nothing to the next one, or by a
 * credit note for the invoice of its time. Lago has no idempotency keys. The destination finds an
 * earlier result by the line's id in its text.
 */
export class LagoLate implements LateBiller {
  readonly #client: LagoClient;
  /** The property that Lago sums, by metric. */
  readonly #fieldOf: (metric: string) => string | undefined;

  constructor(client: LagoClient, fieldOf: (metric: string) => string | undefined) {
    this.#client = client;
    this.#fieldOf = fieldOf;
  }

  async price(
    tenant: Tenant,
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly LatePricing[]> {
    const ids = idsOf(tenant);
    const earliest = least(events.map(({ window_start }) => Date.parse(window_start)));
    const invoices = await this.#finalSince(ids, earliest, signal);
    if ('reason' in invoices) return events.map(() => failedStep(invoices));
    return pLimit(CONCURRENT_QUESTIONS).map([...events], (event) =>
      this.#priceOne(ids, event, invoices, signal),
    );
  }

  async bill(tenant: Tenant, line: LateLine, signal: AbortSignal): Promise<LateOutcome> {
    const ids = idsOf(tenant);
    // A one-off invoice cannot be negative.
    return line.way === 'credit' || line.minor < 0n
      ? this.#credit(ids, line, signal)
      : this.#invoice(ids, line, signal);
  }

  /** Prices one event. After a lost answer it may be on its invoice: Lago never forgets events. */
  async #priceOne(
    ids: LagoIds,
    event: UsageEvent,
    invoices: readonly UsageFees[],
    signal: AbortSignal,
  ): Promise<LatePricing> {
    const known = await this.#client.get(`/events/${encodeURIComponent(event.id)}`, signal);
    if (known.kind === 'ok') return { kind: 'delivered' };
    if (known.kind !== 'refused' || known.status !== 404) return failedStep(known);
    const { properties } = lagoEvent(event, ids.subscription, this.#fieldOf(event.metric) ?? '');
    const at = Date.parse(event.window_start);
    for (const { invoice, fees } of invoices) {
      const own = fees.filter((fee) => concerns(fee, event.metric, at));
      const fee = own
        .filter((one) => matches(filtersOf(one), properties))
        .toSorted((a, b) => Object.keys(filtersOf(b)).length - Object.keys(filtersOf(a)).length)
        .at(0);
      if (fee === undefined) continue;
      const other = await this.#moreSpecific(invoice, fee, properties, signal);
      if (other === true) break;
      if (other !== undefined) return failedStep(other);
      const price = couponProblem(invoice, fee, event) ?? priceOf(invoice, fee);
      return typeof price === 'string'
        ? { kind: 'rejected', reason: price }
        : { kind: 'priced', price };
    }
    const reason = `no line of a final invoice has a price for it: metric: ${quote(event.metric)}, window_start: ${quote(event.window_start)}; enter it there by hand and discard it`;
    return { kind: 'rejected', reason };
  }

  /**
   * Returns true if the plan prices such usage by a filter that the invoice lacks, since there was
   * no such usage. It uses the plan's current state, as Lago's invoices do.
   */
  async #moreSpecific(
    invoice: JsonObject,
    fee: JsonObject,
    properties: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<true | ApiProblem | undefined> {
    const subscription = textOf(fee, 'lago_subscription_id');
    const own = objectsOf(invoice, 'subscriptions').find(
      (one) => textOf(one, 'lago_id') === subscription,
    );
    const plan = textOf(own ?? {}, 'plan_code');
    if (plan === undefined) return true;
    const answer = await this.#client.get(`/plans/${encodeURIComponent(plan)}`, signal);
    if (answer.kind !== 'ok') return answer;
    const charge = objectsOf(objectOf(answer.body, 'plan'), 'charges').find(
      (one) => textOf(one, 'lago_id') === textOf(fee, 'lago_charge_id'),
    );
    const matched = Object.keys(filtersOf(fee)).length;
    const others = objectsOf(charge ?? {}, 'filters').map((filter) => objectOf(filter, 'values'));
    const isOther = others.some(
      (values) => Object.keys(values).length > matched && matches(values, properties),
    );
    return charge === undefined || isOther ? true : undefined;
  }

  async #invoice(ids: LagoIds, line: LateLine, signal: AbortSignal): Promise<LateOutcome> {
    const client = this.#client;
    const { currency } = line.price;
    const query = new URLSearchParams({
      external_customer_id: ids.customer,
      invoice_type: 'one_off',
      issuing_date_from: dayOf(line.from - DAY_MS),
    });
    const list = await client.list(`/invoices?${query.toString()}`, 'invoices', signal);
    if (list.kind !== 'list') return failedStep(list);
    for (const { lago_id: id, invoice_type: type } of list.items) {
      if (typeof id !== 'string' || type !== 'one_off') continue;
      const answer = await client.get(`/invoices/${encodeURIComponent(id)}`, signal);
      if (answer.kind !== 'ok') return failedStep(answer);
      const isIt = objectsOf(objectOf(answer.body, 'invoice'), 'fees').some((fee) =>
        bears(fee, line),
      );
      if (isIt) return { kind: 'billed', reference: id };
    }
    const lacking = await this.#ensureAddOn(currency, signal);
    if (lacking !== undefined) return failedStep(lacking);
    const taxCodes = await taxCodesOf(client, line, signal);
    if ('reason' in taxCodes) return failedStep(taxCodes);
    const fee = {
      add_on_code: ADD_ON,
      units: '1',
      unit_amount_cents: Number(line.minor),
      invoice_display_name: line.text,
      description: textOfLine(line),
      ...(taxCodes.length > 0 && { tax_codes: taxCodes }),
    };
    const invoice = { external_customer_id: ids.customer, currency, fees: [fee] };
    return made(await client.call('POST', '/invoices', { invoice }, signal), 'invoice');
  }

  /**
   * Creates a credit note for the amount that Lago estimates: with the fee's taxes, and without the
   * part that coupons covered.
   */
  async #credit(ids: LagoIds, line: LateLine, signal: AbortSignal): Promise<LateOutcome> {
    const client = this.#client;
    const query = new URLSearchParams({ external_customer_id: ids.customer });
    const list = await client.list(`/credit_notes?${query.toString()}`, 'credit_notes', signal);
    if (list.kind !== 'list') return failedStep(list);
    const found = list.items.find((note) => bears(note, line));
    if (found !== undefined) return { kind: 'billed', reference: textOf(found, 'lago_id') ?? '' };
    const about = {
      invoice_id: line.price.invoice,
      items: [{ fee_id: line.price.line, amount_cents: Number(-line.minor) }],
    };
    const estimating = { credit_note: about };
    const estimated = await client.call('POST', '/credit_notes/estimate', estimating, signal);
    if (estimated.kind !== 'ok') return creditFailure(estimated);
    const estimate = objectOf(estimated.body, 'estimated_credit_note');
    const cents = estimate['max_creditable_amount_cents'];
    if (typeof cents !== 'number') {
      return { kind: 'retry', reason: 'the estimate of a credit note has no amount' };
    }
    const credit_note = {
      ...about,
      reason: 'other',
      description: textOfLine(line),
      credit_amount_cents: cents,
    };
    const answer = await client.call('POST', '/credit_notes', { credit_note }, signal);
    return made(answer, 'credit_note');
  }

  /** Creates the add-on if it is missing. Its own price is never used. */
  async #ensureAddOn(currency: string, signal: AbortSignal): Promise<ApiProblem | undefined> {
    const known = await this.#client.get(`/add_ons/${ADD_ON}`, signal);
    if (known.kind === 'ok') return undefined;
    if (known.kind !== 'refused' || known.code !== 'add_on_not_found') return known;
    const add_on = {
      name: 'Late usage',
      code: ADD_ON,
      amount_cents: 1,
      amount_currency: currency,
      description: 'Usage that came after the invoice of its time was final',
    };
    const answer = await this.#client.call('POST', '/add_ons', { add_on }, signal);
    if (answer.kind === 'ok') return undefined;
    return answer.kind === 'refused' && isTaken(answer) ? undefined : answer;
  }

  /** Returns final invoices since a moment with the usage fees of a subscription, newest first. */
  async #finalSince(
    { customer, subscription }: LagoIds,
    since: number,
    signal: AbortSignal,
  ): Promise<readonly UsageFees[] | ApiProblem> {
    const query = new URLSearchParams({
      external_customer_id: customer,
      issuing_date_from: dayOf(since - DAY_MS),
    });
    const list = await this.#client.list(`/invoices?${query.toString()}`, 'invoices', signal);
    if (list.kind !== 'list') return list;
    const found: JsonObject[] = [];
    for (const { lago_id: id, status } of list.items.filter(mayHaveUsage)) {
      if (typeof id !== 'string' || status !== 'finalized') continue;
      const answer = await this.#client.get(`/invoices/${encodeURIComponent(id)}`, signal);
      if (answer.kind !== 'ok') return answer;
      found.push(objectOf(answer.body, 'invoice'));
    }
    return usageFees(found, subscription).filter(({ fees }) => fees.length > 0);
  }
}

/**
 * Returns whether a fee is for usage of a metric at a moment. The fee includes both ends of its
 * time, in full seconds.
 */
function concerns(fee: JsonObject, metric: string, at: number): boolean {
  const item = objectOf(fee, 'item');
  if (textOf(item, 'code') !== metric) return false;
  const [from, last] = [timeOf(fee, 'from_date'), timeOf(fee, 'to_date')];
  if (from === undefined || last === undefined) return false;
  return from <= at && at < Math.floor(last / 1_000) * 1_000 + 1_000;
}

function filtersOf(fee: JsonObject): JsonObject {
  return objectOf(objectOf(fee, 'item'), 'filters');
}

function matches(filters: JsonObject, properties: Readonly<Record<string, string>>): boolean {
  return Object.keys(filters).every((key) => {
    const [wanted, value] = [textsOf(filters, key), properties[key]];
    return value !== undefined && (wanted.includes(value) || wanted.includes(ANY_VALUE));
  });
}

/** Returns a fee's price of one unit, or why it has none. */
function priceOf(invoice: JsonObject, fee: JsonObject): LatePrice | string {
  const each = textOf(fee, 'precise_unit_amount');
  const [id = '', line = ''] = [textOf(invoice, 'lago_id'), textOf(fee, 'lago_id')];
  const isStandard = Object.keys(objectOf(fee, 'amount_details')).length === 0;
  if (each === undefined || !/^\d+(\.\d+)?$/.test(each) || !isStandard) {
    return `its charge has no single price a unit: invoice: ${quote(id)}; enter it there by hand and discard it`;
  }
  return {
    key: JSON.stringify([id, line]),
    each: /^\d+(?:\.\d*[1-9])?/.exec(each)?.[0] ?? each,
    currency: textOf(fee, 'amount_currency') ?? textOf(invoice, 'currency') ?? '',
    invoice: id,
    line,
    number: textOf(invoice, 'number'),
  };
}

function creditFailure(answer: ApiProblem): LateOutcome {
  if (answer.kind === 'blocked' && answer.reason.includes('feature_unavailable')) {
    const reason = 'credit notes need a licence of Lago: credit it by hand';
    return { kind: 'rejected', reason };
  }
  return failedStep(answer);
}

function textOfLine({ text, id }: LateLine): string {
  return `${text} (${id})`;
}

/** Returns whether an object's text has the id of a line. */
function bears(object: JsonObject, { id }: LateLine): boolean {
  return JSON.stringify(object).includes(id);
}

function made(answer: ApiAnswer, root: string): LateOutcome {
  if (answer.kind === 'retry') {
    return { ...answer, afterMs: Math.max(answer.afterMs ?? 0, SETTLED_MS) };
  }
  if (answer.kind !== 'ok') return failedStep(answer);
  const reference = textOf(objectOf(answer.body, root), 'lago_id');
  if (reference !== undefined) return { kind: 'billed', reference };
  return { kind: 'retry', reason: `no ${root} in the answer`, afterMs: SETTLED_MS };
}

function dayOf(at: number): string {
  return new Date(Math.max(0, at)).toISOString().slice(0, 10);
}
