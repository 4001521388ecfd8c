import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, isObject, notFound, ok, page, text } from './answers.ts';
import type { LagoState, Metric, MetricFilter } from './state.ts';

const AGGREGATIONS = new Set([
  'count_agg',
  'sum_agg',
  'max_agg',
  'unique_count_agg',
  'weighted_sum_agg',
  'latest_agg',
]);

export function listMetrics(state: LagoState, { query }: FakeRequest): FakeResponse {
  return page('billable_metrics', [...state.metrics.values()], query);
}

export function createMetric(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const details: Record<string, string[]> = {};
  const code = text(input['code']);
  const name = text(input['name']);
  const aggregation = text(input['aggregation_type']);
  const filters = readFilters(input['filters'] ?? []);
  if (name === undefined) details['name'] = ['value_is_mandatory'];
  if (code === undefined) details['code'] = ['value_is_mandatory'];
  else if (state.metrics.has(code)) details['code'] = ['value_already_exist'];
  if (!AGGREGATIONS.has(aggregation ?? '')) details['aggregation_type'] = ['value_is_invalid'];
  if (aggregation !== 'count_agg' && text(input['field_name']) === undefined) {
    details['field_name'] = ['value_is_mandatory'];
  }
  if (filters === undefined) details['values'] = ['value_is_mandatory'];
  if (Object.keys(details).length > 0) return invalid(details);
  const metric: Metric = {
    lago_id: state.nextId(),
    name: name ?? '',
    code: code ?? '',
    description: text(input['description']) ?? null,
    aggregation_type: aggregation ?? '',
    field_name: text(input['field_name']) ?? null,
    recurring: input['recurring'] === true,
    created_at: new Date(at).toISOString(),
    filters: filters ?? [],
  };
  state.metrics.set(metric.code, metric);
  return ok({ billable_metric: metric });
}

export function showMetric(state: LagoState, code: string): FakeResponse {
  const metric = state.metrics.get(code);
  return metric === undefined ? notFound('billable_metric') : ok({ billable_metric: metric });
}

/** Replaces all filters. Prices under a removed value are lost with it. */
export function updateMetric(
  state: LagoState,
  code: string,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const metric = state.metrics.get(code);
  if (metric === undefined) return notFound('billable_metric');
  const filters = input['filters'] === undefined ? metric.filters : readFilters(input['filters']);
  if (filters === undefined) return invalid({ values: ['value_is_mandatory'] });
  metric.name = text(input['name']) ?? metric.name;
  metric.description = text(input['description']) ?? metric.description;
  metric.filters = filters;
  discardLostPrices(state, metric);
  return ok({ billable_metric: metric });
}

function discardLostPrices(state: LagoState, metric: Metric): void {
  const allowed = new Map(metric.filters.map(({ key, values }) => [key, new Set(values)]));
  for (const plan of state.plans.values()) {
    for (const charge of plan.charges) {
      if (charge.billable_metric_code !== metric.code) continue;
      charge.filters = charge.filters.filter(({ values }) =>
        Object.entries(values).every(([key, wanted]) =>
          wanted.every((value) => value.startsWith('__') || allowed.get(key)?.has(value) === true),
        ),
      );
    }
  }
}

function readFilters(value: unknown): readonly MetricFilter[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const filters: MetricFilter[] = [];
  for (const item of value as unknown[]) {
    if (!isObject(item) || text(item['key']) === undefined) return undefined;
    const values: unknown = item['values'];
    if (!Array.isArray(values) || values.length === 0) return undefined;
    filters.push({ key: String(item['key']), values: values.map(String) });
  }
  return filters;
}
