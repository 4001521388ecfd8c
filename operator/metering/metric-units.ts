import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { PARTS_PER_GPU } from '../model/gpu-parts.ts';

const MS_PER_HOUR = 3_600_000n;
const BYTES_PER_GIB = 2n ** 30n;

const IN_BYTES: ReadonlySet<string> = new Set([
  'tenant_memory_gb_hours',
  'tenant_storage_gb_hours',
]);

/** Their amounts are nano-parts of a GPU, so that every share adds up exactly. */
const IN_GPU_PARTS: ReadonlySet<string> = new Set([
  'tenant_gpu_hours',
  'tenant_gpu_downtime_hours',
]);

const UNITS = new Map(COLLECTOR_METRICS.map((metric) => [metric.code, metric.unit]));

/** What a metric's nano-units × milliseconds are divided by to give nano-units of its event quantity. */
export function quantityDivisor(metric: string): bigint {
  if (IN_GPU_PARTS.has(metric)) return MS_PER_HOUR * PARTS_PER_GPU;
  return IN_BYTES.has(metric) ? MS_PER_HOUR * BYTES_PER_GIB : MS_PER_HOUR;
}

/** The unit of a collector metric's events. */
export function unitOf(metric: string): string {
  const unit = UNITS.get(metric);
  if (unit === undefined) throw new RangeError(`unknown metric: metering: "${metric}"`);
  return unit;
}
