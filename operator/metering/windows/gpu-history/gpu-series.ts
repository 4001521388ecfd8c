import { fractionText, unitsOfFraction } from '../../../model/fraction.ts';
import { UNITS_PER_GPU } from '../../../model/gpu-units.ts';
import { isRecord } from '../../../model/is-record.ts';

/**
 * Amounts by tenant and model, stored for every window, hour and day
 * (docs/explanation/gpus.md#kept-for-400-days).
 */
export interface GpuSeries {
  /** Part of its record keys. */
  readonly name: string;
  /** Names of a row's amounts, in order. */
  readonly fields: readonly string[];
  /** How many stored parts make one written unit. */
  readonly partsPerUnit: bigint;
}

/** GPU parts × ms, written as GPU-milliseconds. Only rows without a tenant have `installed`. */
export const GPU_SHARES: GpuSeries = {
  name: 'shares',
  fields: ['delivered', 'healthy', 'reserved', 'inUse', 'installed'],
  partsPerUnit: UNITS_PER_GPU,
};

/** Millionths of a percent × devices × milliseconds, and the measured devices × milliseconds. */
export const GPU_UTILIZATION: GpuSeries = {
  name: 'utilization',
  fields: ['busy', 'measured'],
  partsPerUnit: 1n,
};

/** The amounts of one tenant and model. */
export interface GpuRow {
  /** Undefined for GPUs that no tenant has. */
  readonly tenant: string | undefined;
  readonly gpuType: string;
  /** In the order of the series' fields. */
  readonly amounts: readonly bigint[];
}

/** Adds up rows by tenant and model. */
export class GpuRows {
  readonly #rows = new Map<string, GpuRow>();

  add({ tenant, gpuType, amounts }: GpuRow): void {
    const key = JSON.stringify([tenant ?? null, gpuType]);
    const sums = this.#rows.get(key)?.amounts ?? [];
    const added = amounts.map((amount, index) => (sums[index] ?? 0n) + amount);
    this.#rows.set(key, { tenant, gpuType, amounts: added });
  }

  list(): readonly GpuRow[] {
    return [...this.#rows.values()];
  }
}

/** A row as JSON inside a record: `["acme","H100","480000",…]`; `null` for no tenant. */
export function encodeGpuRow(
  { partsPerUnit }: GpuSeries,
  { tenant, gpuType, amounts }: GpuRow,
): string {
  const texts = amounts.map((amount) => fractionText(amount, partsPerUnit));
  return JSON.stringify([tenant ?? null, gpuType, ...texts]);
}

/** The rows of a period as a record: `{"v":1,"rows":[["acme","H100","480000",…]]}`. */
export function gpuRecord(encodedRows: readonly string[]): string {
  return `{"v":1,"rows":[${encodedRows.join(',')}]}`;
}

/** The rows of a record; none if another version wrote it. */
export function decodeGpuRows(series: GpuSeries, text: string): readonly GpuRow[] {
  const record: unknown = JSON.parse(text);
  if (!isRecord(record) || record['v'] !== 1 || !Array.isArray(record['rows'])) return [];
  return record['rows'].flatMap((row: unknown) => {
    if (!Array.isArray(row)) return [];
    const [tenant, gpuType, ...amounts] = row.map((cell: unknown) =>
      typeof cell === 'string' ? cell : undefined,
    );
    if (gpuType === undefined) return [];
    return {
      tenant,
      gpuType,
      amounts: series.fields.map((_, index) =>
        unitsOfFraction(amounts[index] ?? '0', series.partsPerUnit),
      ),
    };
  });
}
