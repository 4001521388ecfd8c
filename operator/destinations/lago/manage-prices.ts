import type { Charge, Price } from '../../model/price-book.ts';
import { sameCharge } from '../../pricing/same-charge.ts';
import type { ApiFailure, ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { ManagedOutcome, MeantBook, PricesQuery } from '../prices.ts';
import type { FilterValues, LagoMetric } from './billable-metrics.ts';
import { isTaken, type LagoClient } from './lago-client.ts';
import {
  type ChargeModel,
  chargeProperties,
  ownChargeCode,
  priceKey,
  type WantedCharge,
  wantedCharge,
} from './own-charges.ts';
import type { LagoPlans } from './plans.ts';
import {
  chargeWithCode,
  isOwnCharge,
  ownModel,
  pricesOfCharge,
  rateOfFilter,
  readCharge,
  whyImpossible,
} from './prices.ts';

export interface ManagePricesOptions {
  readonly client: LagoClient;
  readonly plans: Pick<LagoPlans, 'make'>;
  /** The plan of tenants that name none. */
  readonly planCode: string;
  /** Undefined when Lago has no such metric, or it sums nothing. */
  readonly metric: (code: string) => LagoMetric | undefined;
  readonly filterValues: Pick<FilterValues, 'offer'>;
}

/** What is collected on the way. */
interface Told {
  readonly changes: string[];
  readonly failures: string[];
}

/**
 * Keeps one charge for each metric of a book at its plan, with a filter for each rate
 * (docs/destinations/lago.md#prices-kept-by-meterfeed). A charge is written whole, so that all of its prices change at
 * once and a second attempt finds it done. Everybody else's charges stay as they are, and a metric that one of them
 * prices is left to it.
 */
export async function managePricesAtLago(
  options: ManagePricesOptions,
  { books, day }: PricesQuery,
  signal: AbortSignal,
): Promise<ManagedOutcome> {
  const told: Told = { changes: [], failures: [] };
  const done = new Set<string>();
  // The default plan is its own book's, whatever another is called.
  for (const meant of books.toSorted((a, b) => Number(b.isDefault) - Number(a.isDefault))) {
    const plan = meant.isDefault ? options.planCode : meant.book.name;
    if (done.has(plan)) continue;
    done.add(plan);
    const trouble = await manageBook(options, { meant, plan, day }, told, signal);
    if (trouble !== undefined) return { kind: 'failed', reason: trouble.reason };
  }
  return { kind: 'managed', ...told };
}

interface BookTask {
  readonly meant: MeantBook;
  readonly plan: string;
  readonly day: string;
}

async function manageBook(
  options: ManagePricesOptions,
  task: BookTask,
  told: Told,
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const { client, plans } = options;
  const { meant, plan, day } = task;
  const { book } = meant;
  const path = `/plans/${encodeURIComponent(plan)}`;
  let answer = await client.get(path, signal);
  if (answer.kind === 'refused' && answer.code === 'plan_not_found') {
    const made = await plans.make({ code: plan, currency: book.currency }, [], signal);
    if (made.kind !== 'plan') return failureOf(`plan "${plan}"`, made, told);
    told.changes.push(`made plan "${plan}"`);
    answer = await client.get(path, signal);
  }
  if (answer.kind !== 'ok') return failureOf(`plan "${plan}"`, answer, told);
  const object = objectOf(answer.body, 'plan');
  for (const metric of new Set(book.prices.map((price) => price.metric))) {
    if (isPricedByOthers(object, metric)) continue;
    const isPossible = ({ metric: code }: Price, charge: Charge) =>
      whyImpossible(book, { metric: code, charge }, object) === undefined;
    const given = modelOf(ownModel(object, metric));
    const wanted = wantedCharge(book, metric, day, isPossible, given);
    const trouble = await writeCharge(options, { ...task, object, wanted }, told, signal);
    if (trouble !== undefined) return trouble;
  }
  return undefined;
}

interface ChargeTask extends BookTask {
  /** The plan as it is. */
  readonly object: JsonObject;
  readonly wanted: WantedCharge;
}

async function writeCharge(
  { client, metric, filterValues }: ManagePricesOptions,
  { meant, plan, object, wanted }: ChargeTask,
  told: Told,
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const code = ownChargeCode(wanted.metric);
  const own = chargeWithCode(object, code);
  const book = meant.book.name;
  if (own === undefined ? wanted.filters.length === 0 : isAsWanted(own, wanted, book)) {
    return undefined;
  }
  const billable = metric(wanted.metric);
  const what = `charge "${code}" of plan "${plan}"`;
  if (billable === undefined) {
    told.failures.push(`${what}: Lago has no metric "${wanted.metric}" that sums one property`);
    return undefined;
  }
  const rates = wanted.filters.map(({ rate }) => rate);
  if (!(await filterValues.offer(wanted.metric, priceKey(book), rates, signal))) {
    told.failures.push(`${what}: the metric cannot be priced by ${priceKey(book)} now`);
    return undefined;
  }
  const charge = {
    billable_metric_id: billable.id,
    code,
    charge_model: wanted.model,
    invoice_display_name: own === undefined ? null : (own['invoice_display_name'] ?? null),
    properties: chargeProperties(wanted.otherwise, wanted.model),
    filters: [
      ...wanted.filters.map((filter) => filterOf(filter, wanted.model, book)),
      ...foreign(own, book),
    ],
    // Plans that were derived from this one for a single subscription have what it had.
    cascade_updates: true,
  };
  const charges = `/plans/${encodeURIComponent(plan)}/charges`;
  const answer =
    own === undefined
      ? await client.call('POST', charges, { charge }, signal)
      : await client.call('PUT', `${charges}/${encodeURIComponent(code)}`, { charge }, signal);
  // Made meanwhile by an attempt whose answer was lost: the next one looks at it.
  const isThere = answer.kind === 'refused' && isTaken(answer, 'code');
  if (answer.kind !== 'ok' && !isThere) return failureOf(what, answer, told);
  told.changes.push(`${own === undefined ? 'made' : 'changed'} ${what}: ${rates.join(', ')}`);
  return undefined;
}

/** A refusal concerns one thing and is told; anything else ends the attempt. */
function failureOf(
  what: string,
  problem: ApiProblem | { readonly kind: 'missing' },
  told: Told,
): ApiFailure | undefined {
  if (problem.kind !== 'refused' && problem.kind !== 'missing') return problem;
  told.failures.push(
    `${what}: ${problem.kind === 'missing' ? 'it is gone again' : problem.reason}`,
  );
  return undefined;
}

/** Whether a charge of somebody else's makes usage of the metric cost something. */
function isPricedByOthers(plan: JsonObject, metric: string): boolean {
  return objectsOf(plan, 'charges').some((charge) => {
    if (textOf(charge, 'billable_metric_code') !== metric || isOwnCharge(charge)) return false;
    const prices = pricesOfCharge(charge, metric);
    return prices.some(({ isUnset }) => isUnset !== true);
  });
}

function modelOf(text: string | undefined): ChargeModel | undefined {
  return text === 'graduated' || text === 'volume' ? text : undefined;
}

function isAsWanted(own: JsonObject, wanted: WantedCharge, book: string): boolean {
  const filters = objectsOf(own, 'filters').flatMap((filter) => {
    const rate = rateOfFilter(filter, book);
    const there = readCharge(wanted.model, objectOf(filter, 'properties'));
    return rate === undefined ? [] : [{ rate, there }];
  });
  const otherwise = readCharge(wanted.model, objectOf(own, 'properties'));
  const byRate = new Map(filters.map(({ rate, there }) => [rate, there]));
  return (
    filters.length === wanted.filters.length &&
    typeof otherwise !== 'string' &&
    sameCharge(otherwise, wanted.otherwise) &&
    wanted.filters.every(({ rate, charge }) => {
      const there = byRate.get(rate);
      return there !== undefined && typeof there !== 'string' && sameCharge(there, charge);
    })
  );
}

function filterOf(
  { rate, price, charge }: WantedCharge['filters'][number],
  model: ChargeModel,
  book: string,
): JsonObject {
  return {
    invoice_display_name: price,
    properties: chargeProperties(charge, model),
    values: { [priceKey(book)]: [rate] },
  };
}

/** Filters that others have added to a charge of ours: leaving them out would delete them. */
function foreign(own: JsonObject | undefined, book: string): readonly JsonObject[] {
  if (own === undefined) return [];
  return objectsOf(own, 'filters')
    .filter((filter) => rateOfFilter(filter, book) === undefined)
    .map(({ invoice_display_name, properties, values }) => ({
      invoice_display_name,
      properties,
      values,
    }));
}
