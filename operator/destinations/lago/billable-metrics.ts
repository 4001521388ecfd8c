import pLimit from 'p-limit';
import type { MetricDefinition } from '../../model/catalog.ts';
import { TOKEN_KINDS } from '../../model/cloud-event-rule.ts';
import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectsOf, textOf } from '../json.ts';
import { isTaken, type LagoClient } from './lago-client.ts';

type AllowedValues = ReadonlyMap<string, ReadonlySet<string>>;

/** A billable metric as Lago records it. */
export interface LagoMetric {
  readonly id: string;
  readonly code: string;
  readonly name: string;
  /** The property that Lago sums; undefined when it sums none. */
  readonly field: string | undefined;
  /** Values by which charges may distinguish prices; undefined if the server does not list them. */
  readonly filters: AllowedValues | undefined;
}

export type LagoMetricsOutcome =
  | {
      readonly kind: 'metrics';
      readonly byCode: ReadonlyMap<string, LagoMetric>;
      /** Why events of a metric cannot be billed, by code. */
      readonly unusable: ReadonlyMap<string, string>;
    }
  | ApiProblem;

/**
 * Filter values that are known before any event: those of the closed dimensions
 * (docs/reference/events.md#dimensions).
 */
const CLOSED_VALUES: Readonly<Record<string, readonly string[]>> = {
  capacity_type: ['on-demand', 'spot', 'preemptible', 'reserved'],
  billing_mode: ['shared', 'dedicated_node', 'private_node'],
  token_type: TOKEN_KINDS,
};

/**
 * Keys that prices commonly depend on. Tenant clusters are distinguished by grouping instead, since
 * their number has no bound.
 */
const KEYS = [
  'sku',
  'gpu_type',
  'gpu_profile',
  'instance_type',
  'capacity_type',
  'billing_mode',
  'tenant_class',
  'region',
  'model',
  'provider',
  'token_type',
  'context_tier',
  'service_tier',
] as const;
/** The bound of values of a key; prices hardly depend on a key with more. */
const MAX_VALUES = 200;
const RETRY_AFTER_MS = 60_000;

/**
 * Lists the metrics and creates missing ones, each summing one property. It leaves existing metrics
 * as they are; events use the property that the metric sums.
 */
export async function ensureMetrics(
  client: LagoClient,
  wanted: readonly MetricDefinition[],
  logger: Logger,
  signal: AbortSignal,
): Promise<LagoMetricsOutcome> {
  const listed = await listMetrics(client, signal);
  if (listed.kind !== 'metrics') return listed;
  const byCode = new Map(listed.byCode);
  const unusable = new Map<string, string>();
  let raced = false;
  for (const metric of wanted) {
    if (byCode.has(metric.code)) continue;
    const answer = await client.call('POST', '/billable_metrics', creation(metric), signal);
    if (answer.kind === 'ok') {
      const [created] = objectsOf({ all: [answer.body['billable_metric']] }, 'all');
      if (created !== undefined) byCode.set(metric.code, readMetric(created));
      logger.info(`[bootstrap] created metric "${metric.code}"`);
      continue;
    }
    if (answer.kind !== 'refused') return answer;
    if (isTaken(answer)) raced = true;
    else {
      unusable.set(metric.code, `metric "${metric.code}" was not created: ${answer.reason}`);
      logger.warn(`[bootstrap] warning: metric "${metric.code}": ${answer.reason}`);
    }
  }
  if (raced) {
    const again = await listMetrics(client, signal);
    if (again.kind !== 'metrics') return again;
    for (const [code, metric] of again.byCode) byCode.set(code, metric);
  }
  return { kind: 'metrics', byCode, unusable: new Map([...unusable, ...notSummed(byCode)]) };
}

async function listMetrics(client: LagoClient, signal: AbortSignal): Promise<LagoMetricsOutcome> {
  const list = await client.list('/billable_metrics', 'billable_metrics', signal);
  if (list.kind !== 'list') return list;
  const metrics = list.items.map(readMetric);
  const byCode = new Map(metrics.map((metric) => [metric.code, metric]));
  return { kind: 'metrics', byCode, unusable: new Map() };
}

function notSummed(byCode: ReadonlyMap<string, LagoMetric>): [string, string][] {
  return [...byCode.values()]
    .filter(({ field }) => field === undefined)
    .map(({ code }) => [code, `metric "${code}" sums no property: make it a sum in Lago`]);
}

function creation(metric: MetricDefinition): unknown {
  const filters = metric.dimensions.flatMap((key) => {
    const values = CLOSED_VALUES[key];
    return values === undefined ? [] : [{ key, values }];
  });
  return {
    billable_metric: {
      name: metric.name,
      code: metric.code,
      description: metric.description,
      aggregation_type: 'sum_agg',
      field_name: metric.aggregationField,
      recurring: false,
      ...(filters.length > 0 && { filters }),
    },
  };
}

export function readMetric(object: JsonObject): LagoMetric {
  const sums = textOf(object, 'aggregation_type') === 'sum_agg';
  return {
    id: textOf(object, 'lago_id') ?? '',
    code: textOf(object, 'code') ?? '',
    name: textOf(object, 'name') ?? '',
    field: sums ? textOf(object, 'field_name') : undefined,
    filters: Array.isArray(object['filters']) ? readFilters(object) : undefined,
  };
}

function readFilters(object: JsonObject): AllowedValues {
  return new Map(
    objectsOf(object, 'filters').map((filter) => {
      const values: unknown = filter['values'];
      const texts = Array.isArray(values) ? (values as unknown[]).map(String) : [];
      return [textOf(filter, 'key') ?? '', new Set(texts)];
    }),
  );
}

/**
 * Adds every new SKU, and other values that prices depend on, as filter values of Lago's metrics,
 * so that people can price them.
 *
 * A change replaces all filters of a metric, and a removed value loses its prices. Each change
 * therefore sends all current values and the new ones
 * (docs/how-to/destinations/lago.md#prices-by-sku-gpu-type-and-capacity-type).
 */
export class FilterValues {
  readonly #client: LagoClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Known values by metric and key. Absent and unchanged: metrics of servers without filters. */
  readonly #known = new Map<string, Map<string, Set<string>>>();
  #retryAt = 0;
  readonly #inOrder = pLimit(1);

  constructor(client: LagoClient, clock: Clock, logger: Logger) {
    this.#client = client;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Sets the known values to those of the metrics. */
  load(metrics: Iterable<LagoMetric>): void {
    for (const { code, filters } of metrics) {
      if (filters !== undefined) this.#known.set(code, unite(filters, new Map()));
    }
  }

  /** Adds the values in events. Never fails: a value that Lago refused is tried again later. */
  async learn(events: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    if (this.#clock.monotonic() < this.#retryAt) return;
    for (const [code, values] of this.#missingIn(events)) {
      if (await this.#add(code, values, signal)) continue;
      this.#retryAt = this.#clock.monotonic() + RETRY_AFTER_MS;
    }
  }

  #missingIn(events: readonly UsageEvent[]): ReadonlyMap<string, AllowedValues> {
    const missing = new Map<string, Map<string, Set<string>>>();
    for (const event of events) {
      const filters = this.#known.get(event.metric);
      if (filters === undefined) continue;
      for (const key of KEYS) {
        const value = valueOf(event, key);
        const values = filters.get(key);
        if (value === undefined || values?.has(value) === true) continue;
        if ((values?.size ?? 0) >= MAX_VALUES) continue;
        const byKey = missing.get(event.metric) ?? new Map<string, Set<string>>();
        byKey.set(key, (byKey.get(key) ?? new Set()).add(value));
        missing.set(event.metric, byKey);
      }
    }
    return missing;
  }

  /**
   * Adds values and returns whether the metric has them now. Changes run one after another, since
   * each must contain everything that it read before.
   */
  #add(code: string, values: AllowedValues, signal: AbortSignal): Promise<boolean> {
    return this.#inOrder(() => this.#change(code, values, signal));
  }

  async #change(code: string, values: AllowedValues, signal: AbortSignal): Promise<boolean> {
    const path = `/billable_metrics/${encodeURIComponent(code)}`;
    const answer = await this.#client.get(path, signal);
    const object = answer.kind === 'ok' ? answer.body['billable_metric'] : undefined;
    const current = isRecord(object) ? readMetric(object) : undefined;
    if (current?.filters === undefined) return false;
    const union = unite(current.filters, values);
    const filters = [...union].map(([key, all]) => ({ key, values: [...all] }));
    const change = { billable_metric: { name: current.name, filters } };
    const changed = await this.#client.call('PUT', path, change, signal);
    if (changed.kind !== 'ok') {
      this.#logger.warn(
        `[bootstrap] warning: filter values of metric "${code}": ${changed.reason}`,
      );
      return false;
    }
    this.#known.set(code, union);
    const added = [...values].map(([key, all]) => `${key} ${[...all].join(', ')}`).join('; ');
    this.#logger.info(`[bootstrap] metric "${code}" can be priced by ${added}`);
    return true;
  }
}

function valueOf(event: UsageEvent, key: (typeof KEYS)[number]): string | undefined {
  if (key === 'sku' || key === 'region') return event[key];
  return event.dimensions?.[key];
}

function unite(a: AllowedValues, b: AllowedValues): Map<string, Set<string>> {
  const keys = new Set([...a.keys(), ...b.keys()]);
  return new Map(
    [...keys].map((key) => [key, new Set([...(a.get(key) ?? []), ...(b.get(key) ?? [])])]),
  );
}
