import type { PrometheusSettings } from '../settings/settings.ts';
import { decimalFromNanos, nanosFromDecimal, scaleToDecimal } from '../model/decimal.ts';
import { quote } from '../model/validate-event.ts';
import type { Window } from '../model/window.ts';
import { gpuModel } from '../metering/timelines/gpu-device.ts';
import { builtInQueries } from './built-in-queries.ts';
import type {
  QueryResult,
  GpuUtilization,
  Measure,
  MeasuredCharge,
  MeasuredCluster,
  Plan,
} from './measure.ts';
import { NO_QUERY, planQuery, planShared } from './plan-query.ts';
import { checkRows, labelKey, type Sample } from './query-answer.ts';
import { sharedEgress } from './shared-egress.ts';
import { sharedUtilization } from './shared-utilization.ts';

const BYTES_PER_GIB = 2n ** 30n;

/** Sums stay in bytes up to the ninth digit and are divided afterwards: rounded once. */
const COMPLETE: readonly [bigint, bigint] = [1n, 1n];

/** `tenant_network_egress_gb`: GiB that left the pods of a tenant cluster, the sum of all rows. */
export function createEgressMeasure(preset: PrometheusSettings['preset']): Measure {
  return {
    metric: 'tenant_network_egress_gb',
    unit: 'gib',
    plan: (subject, window) => {
      const replacement = subject.cluster.metering.egressQuery;
      const plan = planQuery({
        subject,
        window,
        preset,
        replacement,
        replacedBy: 'EGRESS_QUERY or spec.metering.egressQuery of a TenantOverride',
        builtIn: (about) =>
          about.onHost || preset !== 'default' ? builtInQueries(preset, about).egress : undefined,
      });
      if (replacement !== undefined) return plan;
      return planShared(plan, sharedEgress(preset), { subject, window, preset });
    },
    read: ({ rows }) => {
      const { good, refused } = checkRows(rows, labelKey, COMPLETE);
      const bytes = good.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
      const quantity = scaleToDecimal(decimalFromNanos(bytes), 1n, BYTES_PER_GIB);
      return { charges: quantity === undefined ? [] : [{ quantity }], refused };
    },
  };
}

const MS_PER_HOUR = 3_600_000n;
/** Sums of doubles may slightly exceed 100. */
const MOST_PERCENT = 100.001;
const PERCENT_DIGITS = 1e6;

/** Labels with the model's name in exporters and queries. The first one present wins. */
const MODEL_LABELS = ['modelName', 'gpu_type', 'model_name', 'model'] as const;

/**
 * `tenant_gpu_utilization`, by model: average percent × hours of the window
 * (docs/explanation/prometheus.md#gpu-utilisation). A GPU at a steady 50 % counts 50 an hour.
 * Informational.
 */
export function createUtilizationMeasure(preset: PrometheusSettings['preset']): Measure {
  return {
    metric: 'tenant_gpu_utilization',
    unit: 'util-hours',
    plan: (subject, window) => {
      const { gpuUtilQuery, gpuCountQuery = NO_QUERY } = subject.cluster.metering;
      const plan = planQuery({
        subject,
        window,
        preset,
        replacement: gpuUtilQuery,
        replacedBy: 'GPU_UTIL_QUERY or spec.metering.gpuUtilQuery of a TenantOverride',
        builtIn: (about) =>
          about.onHost || about.uniqueName || preset !== 'default'
            ? builtInQueries(preset, about).utilization
            : undefined,
      });
      if (plan.kind !== 'query') return plan;
      const devices = planDevices(preset, subject, window);
      // A custom count is queried for each tenant cluster, and so is the utilisation that it
      // belongs to.
      const isBuiltIn = gpuUtilQuery === undefined && gpuCountQuery === NO_QUERY;
      const beside = devices.kind === 'query' ? devices.promql : undefined;
      const namelessBeside = devices.kind === 'nameless' ? devices.placeholder : undefined;
      const both: Plan = { ...plan, beside, namelessBeside };
      if (!isBuiltIn) return both;
      return planShared(both, sharedUtilization(preset), { subject, window, preset });
    },
    read: readUtilization,
  };
}

/** The built-in count belongs to the built-in utilisation; custom queries may differ. */
function planDevices(
  preset: PrometheusSettings['preset'],
  subject: MeasuredCluster,
  window: Window,
): Plan {
  const { gpuUtilQuery, gpuCountQuery } = subject.cluster.metering;
  const ofReplacement = gpuUtilQuery === undefined ? undefined : NO_QUERY;
  return planQuery({
    subject,
    window,
    preset,
    replacement: gpuCountQuery ?? ofReplacement,
    replacedBy: 'GPU_COUNT_QUERY',
    builtIn: (about) => builtInQueries(preset, about).devices,
  });
}

function readUtilization({ rows, beside }: QueryResult, window: Window) {
  const hours = [BigInt(window.end - window.start), MS_PER_HOUR] as const;
  const { good, refused } = checkRows(rows, modelKey, hours);
  const devices = devicesByModel(beside);
  const charges: MeasuredCharge[] = [];
  const utilization: GpuUtilization[] = [];
  const problems = [...refused];
  for (const { labels, quantity, value } of good) {
    const model = modelOf(labels);
    const percent = Number(value);
    if (model === undefined) {
      const wanted = MODEL_LABELS.slice(0, 2).join(' or ');
      problems.push(`no label ${wanted}: row: ${quote(JSON.stringify(labels))}`);
    } else if (percent > MOST_PERCENT) {
      problems.push(`more than 100 percent: value: ${quote(value)} of ${quote(model)}`);
    } else {
      const count = devices.get(model);
      utilization.push({ gpuType: model, percent, devices: count ?? 1 });
      charges.push({
        quantity,
        dimensions: { gpu_type: model },
        properties: {
          avg_utilization_pct: Math.round(percent * PERCENT_DIGITS) / PERCENT_DIGITS,
          ...(count !== undefined && { gpu_devices: count }),
        },
      });
    }
  }
  return { charges, refused: problems, utilization };
}

function devicesByModel(beside: QueryResult['beside']): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { labels, value } of beside?.samples ?? []) {
    const model = modelOf(labels);
    const count = Number(value);
    if (model !== undefined && Number.isSafeInteger(count) && count > 0) counts.set(model, count);
  }
  return counts;
}

function modelKey(labels: Sample['labels']): string {
  return modelOf(labels) ?? '';
}

function modelOf(labels: Sample['labels']): string | undefined {
  const named = MODEL_LABELS.map((label) => labels[label]).find(
    (value) => value !== undefined && value.trim() !== '',
  );
  return named === undefined ? undefined : gpuModel(named);
}
