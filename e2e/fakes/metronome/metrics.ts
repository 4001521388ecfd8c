import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { isObject, objects, ok, page, refused, text, texts } from './answers.ts';
import type { Metric, MetronomeState, StoredEvent } from './state.ts';

const AGGREGATIONS = new Set(['COUNT', 'LATEST', 'MAX', 'SUM', 'UNIQUE']);

/** Creates a metric, which never changes. Every key that it groups by must be among its filters. */
export function createMetric(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const name = text(input['name']);
  const aggregation = text(input['aggregation_type'])?.toUpperCase() ?? '';
  const filters = objects(input['property_filters']);
  const filtered = new Set(filters.flatMap((filter) => text(filter['name']) ?? []));
  const groupKeys = Array.isArray(input['group_keys'])
    ? (input['group_keys'] as unknown[]).map(texts)
    : [];
  const key = text(input['aggregation_key']);
  if (name === undefined) return refused(400, 'name is required');
  if (!AGGREGATIONS.has(aggregation)) return refused(400, 'aggregation_type is not valid');
  if (aggregation !== 'COUNT' && key === undefined) {
    return refused(400, 'aggregation_key is required');
  }
  const lacking = [...(key === undefined ? [] : [key]), ...groupKeys.flat()].find(
    (one) => !filtered.has(one),
  );
  if (lacking !== undefined) {
    return refused(400, `${lacking} must also appear in property_filters`);
  }
  const metric: Metric = {
    id: state.nextId(),
    name,
    aggregation_type: aggregation,
    aggregation_key: key,
    event_type_filter: isObject(input['event_type_filter']) ? input['event_type_filter'] : {},
    property_filters: filters,
    group_keys: groupKeys,
    createdAt: at,
  };
  state.metrics.push(metric);
  return ok({ id: metric.id });
}

export function listMetrics(state: MetronomeState, { query }: FakeRequest): FakeResponse {
  const archived = query.get('include_archived') === 'true';
  const found = state.metrics.filter(({ archived_at }) => archived || archived_at === undefined);
  return page(found.map(show), query);
}

export function showMetric(state: MetronomeState, id: string): FakeResponse {
  const metric = state.metrics.find((one) => one.id === id);
  return metric === undefined ? refused(404, 'Billable metric not found') : ok(show(metric));
}

export function archiveMetric(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const metric = state.metrics.find(({ id }) => id === input['id']);
  if (metric === undefined) return refused(404, 'Billable metric not found');
  metric.archived_at ??= new Date(at).toISOString();
  return ok({ id: metric.id });
}

/**
 * Returns whether an event counts for a metric: the metric existed before it, has its type, and all
 * property filters pass. An event that lacks a property silently counts for nothing.
 */
export function counts(metric: Metric, event: StoredEvent): boolean {
  if (metric.createdAt > event.takenAt) return false;
  if (metric.archived_at !== undefined && Date.parse(metric.archived_at) <= event.takenAt)
    return false;
  const { in_values, not_in_values } = metric.event_type_filter;
  if (Array.isArray(in_values) && !texts(in_values).includes(event.event_type)) return false;
  if (texts(not_in_values).includes(event.event_type)) return false;
  return metric.property_filters.every((filter) => {
    const value = event.properties[String(filter['name'])];
    if (filter['exists'] === true && value === undefined) return false;
    if (filter['exists'] === false && value !== undefined) return false;
    const included = texts(filter['in_values']);
    if (included.length > 0 && !included.includes(String(value))) return false;
    return !texts(filter['not_in_values']).includes(String(value));
  });
}

function show({ createdAt: _createdAt, ...metric }: Metric) {
  return metric;
}
