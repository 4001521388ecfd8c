import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import { translatePriceBook } from '../../operator/controllers/price-book-settings.ts';
import { BUILT_IN_METRICS } from '../../operator/model/catalog.ts';
import { decimalFromNanos } from '../../operator/model/decimal.ts';
import type { PriceCharge, PriceBook } from '../../operator/model/price-book.ts';
import { amountText } from '../../operator/model/pricing/amount.ts';
import { type PriceOnDay, pricesOn } from '../../operator/model/pricing/compare.ts';
import { plainCharge } from '../../operator/model/pricing/same-charge.ts';

const SAMPLE = resolve(join(import.meta.dirname, '../../config/samples/price-book.yaml'));
const FREE: PriceCharge = { kind: 'flat', picos: 0n, includedNanos: 0n };

/** The default of DEFAULT_PLAN_CODE: the plan of all simulated tenants. */
export const DEFAULT_PLAN = 'tenant-standard';

/** The PriceBook of all simulated tenants: the sample, under the code of the default plan. */
export async function standardPrices(): Promise<{
  /** As it is applied to a cluster. */
  readonly object: object;
  readonly book: PriceBook;
}> {
  const sample = parse(await readFile(SAMPLE, 'utf8')) as {
    readonly spec: Parameters<typeof translatePriceBook>[1];
  };
  const translation = translatePriceBook(DEFAULT_PLAN, sample.spec);
  if (translation.kind === 'invalid') throw new Error(`${SAMPLE}: ${translation.message}`);
  return {
    object: { ...sample, metadata: { name: DEFAULT_PLAN } },
    book: translation.settings,
  };
}

/** A Lago and a key for it. */
export interface LagoAccess {
  /** Without `/api/v1`. */
  readonly url: string;
  readonly apiKey: string;
}

/**
 * Sets prices at Lago by its API, as a finance team does before it bills: billable metrics, a monthly plan with the name and
 * the currency of a book, and the prices of the book on a UTC day. A plan that exists gets these prices. Rejects where Lago
 * refuses a request.
 */
export async function setUpPlan(
  access: LagoAccess,
  { name: code, currency, prices }: PriceBook,
  day: string,
): Promise<void> {
  const plan = {
    name: code,
    code,
    interval: 'monthly',
    amount_cents: 0,
    amount_currency: currency,
  };
  const made = await makeIfMissing(access, 'plans', code, { plan });
  if (made.amount_currency !== currency) {
    throw new Error(
      `the local Lago: plan "${code}" is in ${made.amount_currency}, and its prices are in ${currency}: \`make clean\` forgets the plan`,
    );
  }
  for (const [metric, own] of Map.groupBy(pricesOn({ prices }, day), (price) => price.metric)) {
    const billable_metric = billableMetric(metric, own);
    const { lago_id } = await makeIfMissing(access, 'billable_metrics', metric, {
      billable_metric,
    });
    const charge = { ...chargeOf(own), billable_metric_id: lago_id, code: metric };
    const path = `plans/${code}/charges`;
    const changed = await call(access, 'PUT', `${path}/${metric}`, { charge });
    if (changed.status === 404) await succeeded(access, 'POST', path, { charge });
    else if (changed.status !== 200) throw refusal(`PUT ${path}/${metric}`, changed);
  }
}

function billableMetric(code: string, prices: readonly PriceOnDay[]): object {
  const { name, aggregationField } = BUILT_IN_METRICS.find((one) => one.code === code) ?? {};
  const pairs = prices.flatMap(({ match }) => Object.entries(match));
  const filters = [...Map.groupBy(pairs, ([key]) => key)].map(([key, own]) => ({
    key,
    values: [...new Set(own.map(([, value]) => value))],
  }));
  return { name, code, aggregation_type: 'sum_agg', field_name: aggregationField, filters };
}

/** The charge of one metric: the price without `match` is its own, every other one is a filter. */
function chargeOf(prices: readonly PriceOnDay[]): object {
  const plain = prices.map(({ match, charge = FREE }) => ({ match, charge: plainCharge(charge) }));
  const kinds = new Set(plain.map(({ charge }) => charge.kind));
  const model = kinds.has('graduated') ? 'graduated' : kinds.has('volume') ? 'volume' : 'standard';
  const hasMatch = ({ match }: (typeof plain)[number]): boolean => Object.keys(match).length > 0;
  return {
    charge_model: model,
    properties: properties(plain.find((one) => !hasMatch(one))?.charge ?? FREE, model),
    filters: plain.filter(hasMatch).map(({ match, charge }) => ({
      values: Object.fromEntries(Object.entries(match).map(([key, value]) => [key, [value]])),
      properties: properties(charge, model),
    })),
  };
}

/** What a charge costs, in Lago's fields. Ranges follow each other without a hole, from 0 on. */
function properties(charge: PriceCharge, model: string): object {
  const beyond = charge.kind === 'flat' ? charge.picos : charge.beyondPicos;
  if (model === 'standard') return { amount: amountText(beyond) };
  const tiers = charge.kind === 'flat' ? [] : charge.tiers;
  const ends = tiers.map(({ upToNanos }) => Number(decimalFromNanos(upToNanos)));
  const ranges = [...tiers.map(({ picos }) => picos), beyond].map((picos, index) => ({
    from_value: ends[index - 1] ?? 0,
    to_value: ends[index] ?? null,
    per_unit_amount: amountText(picos),
    flat_amount: '0',
  }));
  return { [`${model}_ranges`]: ranges };
}

/** An object of Lago, as far as it matters here. */
interface Made {
  readonly lago_id: string;
  readonly amount_currency?: string;
}

/** The object with a code, which is made of `body` where it is missing. */
async function makeIfMissing(
  access: LagoAccess,
  list: string,
  code: string,
  body: object,
): Promise<Made> {
  const found = await call(access, 'GET', `${list}/${code}`);
  const answer = found.status === 404 ? await succeeded(access, 'POST', list, body) : found;
  const [made] = Object.values(answer.body as Record<string, Made>);
  if (answer.status !== 200 || made === undefined) throw refusal(`GET ${list}/${code}`, answer);
  return made;
}

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

async function succeeded(
  access: LagoAccess,
  method: string,
  path: string,
  body: object,
): Promise<Answer> {
  const answer = await call(access, method, path, body);
  if (answer.status !== 200) throw refusal(`${method} ${path}`, answer);
  return answer;
}

async function call(
  { url, apiKey }: LagoAccess,
  method: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const response = await fetch(`${url}/api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

function refusal(request: string, { status, body }: Answer): Error {
  return new Error(`the local Lago: ${request}: ${status}: ${JSON.stringify(body)}`);
}
