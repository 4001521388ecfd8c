import { type Decimal, decimalFromNanos, divideHalfUp } from '../../model/decimal.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import {
  GPU_SHARES,
  GPU_UTILIZATION,
  type GpuRow,
  type GpuSeries,
} from '../../metering/windows/gpu-history/gpu-series.ts';

/** The grouping keys. */
export const GPU_KEYS = ['tenant', 'gpu_type', 'day', 'hour', 'window'] as const;

export type GpuKey = (typeof GPU_KEYS)[number];

/** The `tenant` of GPU time that no tenant had. */
export const UNASSIGNED = 'unassigned';

/** One row of the answer: GPU-hours of a group, each figure rounded once. */
export interface GpuSumRow {
  /** The values in the order of the keys. */
  readonly keys: readonly string[];
  readonly delivered: Decimal;
  readonly healthy: Decimal;
  readonly reserved: Decimal;
  readonly inUse: Decimal;
  /** Healthy GPU-hours that were not in use. */
  readonly idle: Decimal;
  /** Percent, the average of the measured devices; undefined when none was measured. */
  readonly utilization: Decimal | undefined;
  /** Device-hours of that average. */
  readonly measured: Decimal;
  /** GPU-hours installed in all nodes; 0 unless the group contains rows without a tenant. */
  readonly installed: Decimal;
}

interface Sum {
  readonly keys: readonly string[];
  readonly shares: bigint[];
  readonly utilization: bigint[];
}

/** Exact sums of GPU time by group, and by model. */
export class GpuSums {
  readonly #groupBy: readonly GpuKey[];
  readonly #maxRows: number;
  readonly #rows = new Map<string, Sum>();
  readonly #models = new Map<string, Sum>();

  constructor(groupBy: readonly GpuKey[], maxRows: number) {
    this.#groupBy = groupBy;
    this.#maxRows = maxRows;
  }

  /**
   * Adds a row whose window, hour or day begins at `start`, RFC 3339. Returns false for one row too
   * many; then nothing is added.
   */
  add(series: GpuSeries, start: string, row: GpuRow): boolean {
    const keys = this.#groupBy.map((key) => valueOf(key, start, row));
    // A tenant may be named `unassigned`.
    const isNobodys = row.tenant === undefined && this.#groupBy.includes('tenant');
    const name = JSON.stringify([...keys, isNobodys]);
    if (!this.#rows.has(name) && this.#rows.size >= this.#maxRows) return false;
    addTo(sumOf(this.#rows, name, keys), series, row.amounts);
    addTo(sumOf(this.#models, row.gpuType, [row.gpuType]), series, row.amounts);
    return true;
  }

  /**
   * The rows sorted by keys. If they are grouped by tenant, empty rows without a tenant are left
   * out.
   */
  rows(): readonly GpuSumRow[] {
    const isNothing = ({ shares, utilization }: Sum): boolean =>
      [...shares.slice(0, INSTALLED), ...utilization].every((amount) => amount === 0n);
    return [...this.#rows]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .filter(([, sum]) => !this.#groupBy.includes('tenant') || !isNothing(sum))
      .map(([, sum]) => rowOf(sum));
  }

  /** One row for each model. */
  totals(): readonly GpuSumRow[] {
    return [...this.#models].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => rowOf(sum));
  }
}

const INSTALLED = GPU_SHARES.fields.indexOf('installed');

function valueOf(key: GpuKey, start: string, { tenant, gpuType }: GpuRow): string {
  if (key === 'tenant') return tenant ?? UNASSIGNED;
  if (key === 'gpu_type') return gpuType;
  if (key === 'day') return start.slice(0, 10);
  return key === 'hour' ? `${start.slice(0, 13)}:00Z` : start;
}

function sumOf(sums: Map<string, Sum>, name: string, keys: readonly string[]): Sum {
  const nothing = ({ fields }: GpuSeries): bigint[] => fields.map(() => 0n);
  const sum = sums.get(name) ?? {
    keys,
    shares: nothing(GPU_SHARES),
    utilization: nothing(GPU_UTILIZATION),
  };
  sums.set(name, sum);
  return sum;
}

function addTo(sum: Sum, series: GpuSeries, amounts: readonly bigint[]): void {
  const sums = series === GPU_SHARES ? sum.shares : sum.utilization;
  for (const [index, amount] of amounts.entries()) sums[index] = (sums[index] ?? 0n) + amount;
}

const MS_PER_HOUR = 3_600_000n;
const NANOS = 1_000_000_000n;
/** Nano-units of a millionth. */
const NANOS_PER_MILLIONTH = 1_000n;

function rowOf({ keys, shares, utilization }: Sum): GpuSumRow {
  const [delivered = 0n, healthy = 0n, reserved = 0n, inUse = 0n, installed = 0n] = shares.map(
    (amount) => divideHalfUp(amount * NANOS, UNITS_PER_GPU * MS_PER_HOUR),
  );
  const [busy = 0n, measured = 0n] = utilization;
  return {
    keys,
    delivered: decimalFromNanos(delivered),
    healthy: decimalFromNanos(healthy),
    reserved: decimalFromNanos(reserved),
    inUse: decimalFromNanos(inUse),
    // From the rounded figures, so that a row adds up to the last digit.
    idle: decimalFromNanos(healthy - inUse),
    utilization:
      measured === 0n
        ? undefined
        : decimalFromNanos(divideHalfUp(busy, measured) * NANOS_PER_MILLIONTH),
    measured: decimalFromNanos(divideHalfUp(measured * NANOS, MS_PER_HOUR)),
    installed: decimalFromNanos(installed),
  };
}
