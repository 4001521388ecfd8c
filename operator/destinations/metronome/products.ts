import { isRecord } from '../../model/is-record.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf, textsOf } from '../json.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** A usage product. It puts a billable metric on rate cards. */
export interface Product {
  readonly id: string;
  readonly name: string;
  /** The metrics that it bills from, oldest first; `from` in milliseconds since the epoch. */
  readonly metrics: readonly { readonly id: string; readonly from: number }[];
  /** Keys by which its rates distinguish prices. */
  readonly pricingKeys: readonly string[];
  /** Pricing and presentation keys; together they must be one compound key of the metric. */
  readonly allKeys: readonly string[];
  /** The conversion by which it bills another quantity, for people; undefined without one. */
  readonly converts: string | undefined;
}

export type ProductsOutcome =
  | { readonly kind: 'products'; readonly products: readonly Product[] }
  | ApiProblem;

export async function listProducts(
  client: MetronomeClient,
  signal: AbortSignal,
  archive_filter: 'NOT_ARCHIVED' | 'ALL' = 'NOT_ARCHIVED',
): Promise<ProductsOutcome> {
  const body = { archive_filter };
  const list = await client.list('/v1/contract-pricing/products/list', body, signal);
  if (list.kind !== 'list') return list;
  return { kind: 'products', products: list.items.map(readProduct) };
}

/** Returns the last metric of a product, even if it begins in the future. */
export function latestMetric({ metrics }: Product): string | undefined {
  return metrics.at(-1)?.id;
}

/** Returns the metric from which a product bills usage of a moment. */
export function metricAt({ metrics }: Product, at: number): string | undefined {
  return metrics.findLast(({ from }) => from <= at)?.id;
}

function readProduct(object: JsonObject): Product {
  const initial = objectOf(object, 'initial');
  const current = isRecord(object['current']) ? object['current'] : initial;
  const updates = objectsOf(object, 'updates').map((update) => ({
    state: update,
    from: startOf(update),
  }));
  const states = [
    { state: initial, from: Number.NEGATIVE_INFINITY },
    ...updates.toSorted((a, b) => a.from - b.from),
  ];
  const pricingKeys = textsOf(current, 'pricing_group_key');
  return {
    id: textOf(object, 'id') ?? '',
    name: textOf(current, 'name') ?? '',
    metrics: states.flatMap(({ state, from }) => {
      const id = textOf(state, 'billable_metric_id');
      return id === undefined ? [] : [{ id, from }];
    }),
    pricingKeys,
    allKeys: [...new Set([...pricingKeys, ...textsOf(current, 'presentation_group_key')])],
    converts: ['quantity_conversion', 'quantity_rounding'].find((field) =>
      isRecord(current[field]),
    ),
  };
}

function startOf(update: JsonObject): number {
  return Date.parse(textOf(update, 'starting_at') ?? textOf(update, 'created_at') ?? '') || 0;
}
