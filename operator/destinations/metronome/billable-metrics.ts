import type { MetricDefinition } from '../../model/catalog.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ApiFailure, ApiProblem } from '../json-api/answer.ts';
import { objectOf, textOf } from '../json.ts';
import { nextHour } from './contract-plan.ts';
import {
  type BillableMetric,
  groupKeysOf,
  isNamedFor,
  metricCreation,
  metricName,
  readBillableMetric,
  serves,
} from './metric-definition.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { latestMetric, listProducts, type Product } from './products.ts';

/** Longer than Metronome takes late events: no more usage arrives for a product's old metric. */
const SETTLED_MS = 35 * 86_400_000;

/** The metrics at Metronome that count the events of a metric code. */
export interface MetronomeMetric {
  readonly code: string;
  /** The current metric first, then its predecessors; all of them count the events. */
  readonly ids: readonly string[];
  /** Every property that one of them requires. */
  readonly required: readonly string[];
}

export type MetronomeMetricsOutcome =
  | {
      readonly kind: 'metrics';
      readonly byCode: ReadonlyMap<string, MetronomeMetric>;
      /** Why events of a metric cannot be billed, by code. */
      readonly unusable: ReadonlyMap<string, string>;
    }
  | ApiProblem;

interface EnsureMetricsOptions {
  readonly client: MetronomeClient;
  readonly logger: Logger;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Returns the metrics that bill usage now, without archived ones. */
export async function listBillableMetrics(
  client: MetronomeClient,
  signal: AbortSignal,
): Promise<{ readonly kind: 'listed'; readonly metrics: readonly BillableMetric[] } | ApiProblem> {
  const listed = await client.list('/v1/billable-metrics', undefined, signal);
  if (listed.kind !== 'list') return listed;
  const active = listed.items.filter((item) => textOf(item, 'archived_at') === undefined);
  return { kind: 'listed', metrics: active.map(readBillableMetric) };
}

/**
 * Returns whether a metric counts all usage of a code. A metric that counts a part of it belongs to
 * somebody else, even under the same name.
 */
export function countsAllOf(metric: BillableMetric, code: string): boolean {
  return isNamedFor(metric, code) && metric.sumsAllOf(code);
}

/**
 * Lists the metrics and creates missing ones
 * (docs/how-to/destinations/metronome.md#billable-metrics).
 *
 * A metric can never change. If the catalogue requires more than a metric does, the metric gets a
 * successor, and both count events. Products move to the successor at the next full hour. The
 * predecessor is archived when no more usage can arrive for it.
 */
export async function ensureMetrics(
  options: EnsureMetricsOptions,
  wanted: readonly MetricDefinition[],
  signal: AbortSignal,
): Promise<MetronomeMetricsOutcome> {
  const { client, logger } = options;
  const listed = await listBillableMetrics(client, signal);
  if (listed.kind !== 'listed') return listed;
  const existing = listed.metrics;
  const byCode = new Map<string, MetronomeMetric>();
  const unusable = new Map<string, string>();
  const handovers: Handover[] = [];
  for (const metric of wanted) {
    const named = existing.filter((one) => countsAllOf(one, metric.code));
    let current = named.find((one) => serves(one, metric));
    if (current === undefined) {
      const body = metricCreation(metric);
      const answer = await client.create('/v1/billable-metrics/create', body, signal);
      if (answer.kind === 'retry' || answer.kind === 'blocked') return answer;
      const id = answer.kind === 'ok' ? textOf(objectOf(answer.body, 'data'), 'id') : undefined;
      if (answer.kind === 'refused' || id === undefined) {
        const reason = answer.kind === 'refused' ? answer.reason : 'the answer has no id';
        unusable.set(metric.code, `metric "${metric.code}" was not created: ${reason}`);
        logger.warn(`[bootstrap] warning: metric "${metric.code}": ${reason}`);
        continue;
      }
      current = readBillableMetric({ ...body, id });
      logger.info(`[bootstrap] created metric "${metricName(metric)}"`);
    }
    const counting = [current, ...named.filter((one) => one !== current)];
    byCode.set(metric.code, {
      code: metric.code,
      ids: counting.map(({ id }) => id),
      required: [...new Set([...groupKeysOf(metric), ...counting.flatMap((one) => one.required)])],
    });
    const predecessors = counting.filter((one) => !serves(one, metric));
    if (predecessors.length > 0) handovers.push({ current, predecessors });
  }
  const trouble = await handOver(options, handovers, signal);
  return trouble ?? { kind: 'metrics', byCode, unusable };
}

interface Handover {
  readonly current: BillableMetric;
  readonly predecessors: readonly BillableMetric[];
}

/** Moves products to the successors of their metrics. Warns of a refused product, which stays. */
async function handOver(
  options: EnsureMetricsOptions,
  handovers: readonly Handover[],
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  if (handovers.length === 0) return undefined;
  const { client, logger, now } = options;
  const listed = await listProducts(client, signal);
  if (listed.kind === 'refused') {
    logger.warn(`[bootstrap] warning: products cannot be read: ${listed.reason}`);
    return undefined;
  }
  if (listed.kind !== 'products') return listed;
  for (const { current, predecessors } of handovers) {
    for (const predecessor of predecessors) {
      for (const product of listed.products) {
        if (latestMetric(product) !== predecessor.id) continue;
        const keys = current.compoundKeys.find((compound) =>
          product.allKeys.every((key) => compound.includes(key)),
        );
        if (keys === undefined) {
          const lacking = `"${current.name}" has no group key with all of ${product.allKeys.join(', ')}`;
          logger.warn(
            `[bootstrap] warning: product "${product.name}" stays with its metric: ${lacking}`,
          );
          continue;
        }
        const update = {
          product_id: product.id,
          starting_at: new Date(nextHour(now)).toISOString(),
          billable_metric_id: current.id,
          ...presentationKeys(product, keys),
        };
        const path = '/v1/contract-pricing/products/update';
        const answer = await client.create(path, update, signal);
        if (answer.kind === 'retry' || answer.kind === 'blocked') return answer;
        if (answer.kind === 'refused') {
          logger.warn(`[bootstrap] warning: product "${product.name}": ${answer.reason}`);
          continue;
        }
        logger.info(
          `[bootstrap] product "${product.name}" bills from the new metric "${current.name}" from ${update.starting_at} on`,
        );
      }
      const trouble = await archiveSettled(options, predecessor, listed.products, signal);
      if (trouble !== undefined) return trouble;
    }
  }
  return undefined;
}

/**
 * Returns the presentation keys of a product for another metric. All keys of a product together
 * must be one compound key of its metric.
 */
function presentationKeys({ pricingKeys, allKeys }: Product, compound: readonly string[]) {
  if (allKeys.length === 0) return {};
  return { presentation_group_key: compound.filter((key) => !pricingKeys.includes(key)) };
}

/** Archives a metric that no product has billed from for longer than events may be late. */
async function archiveSettled(
  { client, logger, now }: EnsureMetricsOptions,
  predecessor: BillableMetric,
  products: readonly Product[],
  signal: AbortSignal,
): Promise<ApiFailure | undefined> {
  const unsettled = products.some(({ metrics }) =>
    metrics.some(({ id }, index) => {
      const next = metrics[index + 1];
      return id === predecessor.id && (next === undefined || now - next.from < SETTLED_MS);
    }),
  );
  if (unsettled) return undefined;
  const answer = await client.post('/v1/billable-metrics/archive', { id: predecessor.id }, signal);
  if (answer.kind === 'retry' || answer.kind === 'blocked') return answer;
  if (answer.kind === 'ok') logger.info(`[bootstrap] archived the metric "${predecessor.name}"`);
  else logger.warn(`[bootstrap] warning: metric "${predecessor.name}": ${answer.reason}`);
  return undefined;
}
