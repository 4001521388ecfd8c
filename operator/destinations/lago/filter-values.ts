import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { UsageEvent } from '../../model/event.ts';
import { type LagoMetric, readMetric } from './billable-metrics.ts';
import { isObject } from '../json.ts';
import type { LagoClient } from './lago-client.ts';

/** What prices commonly depend on. Tenant clusters are told apart by grouping instead: they have no end. */
const KEYS = [
  'sku',
  'gpu_type',
  'gpu_profile',
  'instance_type',
  'capacity_type',
  'billing_mode',
  'tenant_class',
  'region',
] as const;
/** Beyond this a key does not look like one that prices depend on. */
const MAX_VALUES = 200;
const RETRY_AFTER_MS = 60_000;

/**
 * Offers every new SKU (and other value that prices depend on) to whoever sets prices in Lago, as a
 * filter value of the metric. A change replaces all filters of a metric, and a value that is left out
 * takes its prices with it: so it always sends what is there now and more (facts 1.2).
 */
export interface FilterValues {
  /** What the metrics have. */
  load(metrics: Iterable<LagoMetric>): void;
  /** Adds the values that events bring. It never fails: what could not be added is tried again later. */
  learn(events: readonly UsageEvent[], signal: AbortSignal): Promise<void>;
}

export function createFilterValues(client: LagoClient, clock: Clock, logger: Logger): FilterValues {
  /** `undefined`: the server has no filters, so they are left alone. */
  const known = new Map<string, Map<string, Set<string>>>();
  let retryAt = 0;

  const missingIn = (events: readonly UsageEvent[]): Map<string, Map<string, Set<string>>> => {
    const missing = new Map<string, Map<string, Set<string>>>();
    for (const event of events) {
      const filters = known.get(event.metric);
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
  };

  /** Whether the metric has the values now. */
  const add = async (
    code: string,
    values: ReadonlyMap<string, ReadonlySet<string>>,
    signal: AbortSignal,
  ): Promise<boolean> => {
    const path = `/billable_metrics/${encodeURIComponent(code)}`;
    const answer = await client.get(path, signal);
    const object = answer.kind === 'ok' ? answer.body['billable_metric'] : undefined;
    const current = isObject(object) ? readMetric(object) : undefined;
    if (current?.filters === undefined) return false;
    const union = unite(current.filters, values);
    const filters = [...union].map(([key, all]) => ({ key, values: [...all] }));
    const change = { billable_metric: { name: current.name, filters } };
    const changed = await client.call('PUT', path, change, signal);
    if (changed.kind !== 'ok') {
      logger.warn(`[bootstrap] warning: filter values of metric "${code}": ${changed.reason}`);
      return false;
    }
    known.set(code, union);
    const added = [...values].map(([key, all]) => `${key} ${[...all].join(', ')}`).join('; ');
    logger.info(`[bootstrap] metric "${code}" can be priced by ${added}`);
    return true;
  };

  return {
    load: (metrics) => {
      for (const { code, filters } of metrics) {
        if (filters !== undefined) known.set(code, unite(filters, new Map()));
      }
    },
    learn: async (events, signal) => {
      if (clock.monotonic() < retryAt) return;
      for (const [code, values] of missingIn(events)) {
        if (!(await add(code, values, signal))) retryAt = clock.monotonic() + RETRY_AFTER_MS;
      }
    },
  };
}

function valueOf(event: UsageEvent, key: (typeof KEYS)[number]): string | undefined {
  if (key === 'sku' || key === 'region') return event[key];
  return event.dimensions?.[key];
}

function unite(
  a: ReadonlyMap<string, ReadonlySet<string>>,
  b: ReadonlyMap<string, ReadonlySet<string>>,
): Map<string, Set<string>> {
  const keys = new Set([...a.keys(), ...b.keys()]);
  return new Map(
    [...keys].map((key) => [key, new Set([...(a.get(key) ?? []), ...(b.get(key) ?? [])])]),
  );
}
