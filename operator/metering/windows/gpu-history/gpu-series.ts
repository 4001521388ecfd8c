import { fractionText, unitsOfFraction } from '../../../model/fraction.ts';
import { UNITS_PER_GPU } from '../../../model/gpu-units.ts';
import { isRecord } from '../../../model/is-record.ts';

/** Amounts that are kept of each tenant and model, for every window, hour and day (docs/explanation/gpus.md#kept-for-400-days). */
export interface GpuSeries {
  /** Part of the keys of its records. */
  readonly name: string;
  /** What the amounts of a row are, in their order. */
  readonly fields: readonly string[];
  /** What amounts are written in. */
  readonly partsPerUnit: bigint;
}

/** In parts × milliseconds; written in GPU-milliseconds. `installed` is in the rows of no tenant only, by model. */
export const GPU_SHARES: GpuSeries = {
  name: 'shares',
  fields: ['delivered', 'healthy', 'reserved', 'inUse', 'installed'],
  partsPerUnit: UNITS_PER_GPU,
};

/** Millionths of a percent × devices × milliseconds, and the devices × milliseconds that were measured. */
export const GPU_UTILIZATION: GpuSeries = {
  name: 'utilization',
  fields: ['busy', 'measured'],
  partsPerUnit: 1n,
};

/** What one tenant has of one model. */
export interface GpuRow {
  /** Undefined for what no tenant has. */
  readonly tenant: string | undefined;
  readonly gpuType: string;
  /** In the order of the series' fields. */
  readonly amounts: readonly bigint[];
}

/** Rows that are added up by tenant and model. */
export class GpuRows {
  readonly #rows = new Map<string, GpuRow>();

  get size(): number {
    return this.#rows.size;
  }

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

/** A row as its part of a record: `["acme","H100","480000",…]`, `null` for no tenant. */
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

/** The rows of a record; none of one that another version wrote. */
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
