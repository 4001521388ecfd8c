import type { MetricDefinition } from '../../model/catalog.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';

/** The property that every billable metric sums. */
export const VALUE_PROPERTY = 'value';
/** Value of a group key that an event lacks. Without the property it would match no metric. */
export const ABSENT = 'none';

const TENANT_CLUSTER = 'tenant_cluster';

/**
 * Returns the keys of a metric's one compound group key. Accounts allow few. They are the keys that
 * prices commonly depend on and the tenant cluster; other metrics declare theirs.
 */
export function groupKeysOf({ dimensions, priceKeys }: MetricDefinition): readonly string[] {
  if (priceKeys !== undefined) return [...priceKeys, TENANT_CLUSTER];
  const declared = dimensions.filter((key) => key !== VALUE_PROPERTY);
  return declared.length === 0 ? [TENANT_CLUSTER] : [...new Set(declared)];
}

/**
 * Returns the metric's name at Metronome: `GPU hours [tenant_gpu_hours]`
 * (docs/how-to/destinations/metronome.md#billable-metrics).
 */
export function metricName({ name, code }: MetricDefinition): string {
  return `${name} [${code}]`;
}

/** Returns the body that creates a metric. Each group key needs a filter that requires it. */
export function metricCreation(metric: MetricDefinition): JsonObject {
  const keys = groupKeysOf(metric);
  return {
    name: metricName(metric),
    aggregation_type: 'SUM',
    aggregation_key: VALUE_PROPERTY,
    event_type_filter: { in_values: [metric.code] },
    property_filters: [VALUE_PROPERTY, ...keys].map((name) => ({ name, exists: true })),
    group_keys: [keys],
  };
}

/** A billable metric as Metronome records it. It never changes there. */
export interface BillableMetric {
  readonly id: string;
  readonly name: string;
  /** Properties that an event must have to count. */
  readonly required: readonly string[];
  /** Returns whether it sums {@link VALUE_PROPERTY} of all events of the code, and of no others. */
  readonly sumsAllOf: (code: string) => boolean;
  readonly compoundKeys: readonly (readonly string[])[];
}

export function readBillableMetric(object: JsonObject): BillableMetric {
  const filters = objectsOf(object, 'property_filters');
  const groupKeys = object['group_keys'];
  const compoundKeys = Array.isArray(groupKeys) ? (groupKeys as unknown[]).map(texts) : [];
  const narrowed = filters.some(
    (filter) =>
      filter['exists'] === false ||
      texts(filter['in_values']).length > 0 ||
      texts(filter['not_in_values']).length > 0,
  );
  const types = objectOf(object, 'event_type_filter');
  const included = texts(types['in_values']);
  const sums =
    textOf(object, 'aggregation_type')?.toUpperCase() === 'SUM' &&
    textOf(object, 'aggregation_key') === VALUE_PROPERTY &&
    textOf(object, 'sql') === undefined;
  return {
    id: textOf(object, 'id') ?? '',
    name: textOf(object, 'name') ?? '',
    required: [
      ...new Set([
        ...filters.flatMap((filter) => textOf(filter, 'name') ?? []),
        ...compoundKeys.flat(),
      ]),
    ],
    sumsAllOf: (code) =>
      sums &&
      !narrowed &&
      included.length === 1 &&
      included[0] === code &&
      texts(types['not_in_values']).length === 0,
    compoundKeys,
  };
}

/** Returns whether a metric does what the catalogue requires. A wider compound key is enough. */
export function serves(existing: BillableMetric, metric: MetricDefinition): boolean {
  const wanted = groupKeysOf(metric);
  return (
    existing.sumsAllOf(metric.code) &&
    existing.compoundKeys.some((keys) => wanted.every((key) => keys.includes(key)))
  );
}

/** Returns whether a metric's name ends in `[<code>]`. */
export function isNamedFor({ name }: BillableMetric, code: string): boolean {
  return name.endsWith(`[${code}]`);
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value)
    ? (value as unknown[]).filter((item) => typeof item === 'string')
    : [];
}
