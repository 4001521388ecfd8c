import type { Logger } from '../../telemetry/logger.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { type JsonObject, objectsOf, textOf } from '../json.ts';
import { isTaken, type LagoClient, type LagoRefusal, type LagoTrouble } from './lago-client.ts';

/** A billable metric as Lago has it. */
export interface LagoMetric {
  readonly id: string;
  readonly code: string;
  readonly name: string;
  /** The property that Lago sums; undefined when it sums none. */
  readonly field: string | undefined;
  /** Values by which charges may tell prices apart; undefined when the server does not say. */
  readonly filters: ReadonlyMap<string, ReadonlySet<string>> | undefined;
}

export type MetricsOutcome =
  | {
      readonly kind: 'metrics';
      readonly byCode: ReadonlyMap<string, LagoMetric>;
      /** Why events of a metric cannot be billed, by code. */
      readonly unusable: ReadonlyMap<string, string>;
    }
  | LagoRefusal
  | LagoTrouble;

/** Filter values that are known before any event: the closed dimension values of spec 2.1. */
const CLOSED_VALUES: Readonly<Record<string, readonly string[]>> = {
  capacity_type: ['on-demand', 'spot', 'preemptible', 'reserved'],
  billing_mode: ['shared', 'dedicated_node', 'private_node'],
};

/**
 * Lists what is there and creates what is missing (spec 1.2): metrics that sum one property. What
 * exists is left as it is; events follow the property that it sums.
 */
export async function ensureMetrics(
  client: LagoClient,
  wanted: readonly MetricDefinition[],
  logger: Logger,
  signal: AbortSignal,
): Promise<MetricsOutcome> {
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
    if (isTaken(answer, 'code')) raced = true;
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

async function listMetrics(client: LagoClient, signal: AbortSignal): Promise<MetricsOutcome> {
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

function readFilters(object: JsonObject): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(
    objectsOf(object, 'filters').map((filter) => {
      const values: unknown = filter['values'];
      const texts = Array.isArray(values) ? (values as unknown[]).map(String) : [];
      return [textOf(filter, 'key') ?? '', new Set(texts)];
    }),
  );
}
