import type { RecordChange } from '../ledger/ledger.ts';
import type { Window } from '../model/window.ts';
import type { Clock } from '../telemetry/clock.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import type { AppendEnd } from '../metering/windows/appender.ts';
import { GpuHistory, type GpuHistoryOptions } from '../metering/windows/gpu-history/gpu-history.ts';
import { GPU_UTILIZATION, GpuRows } from '../metering/windows/gpu-history/gpu-series.ts';
import type { GpuUtilization } from './measure.ts';

const MILLIONTHS = 1e6;

/** Utilisation of tenants' GPUs by model, as records that are written with the answers. */
export class UtilizationRecords {
  readonly #history: GpuHistory;
  /** Rows that are not written yet, by the start of their window. */
  readonly #noted = new Map<number, GpuRows>();

  readonly #clock: Clock;

  constructor(options: Omit<GpuHistoryOptions, 'series'>) {
    this.#clock = options.clock;
    this.#history = new GpuHistory({ ...options, series: GPU_UTILIZATION });
  }

  note({ start, end }: Window, tenant: string, measured: readonly GpuUtilization[]): void {
    if (measured.length === 0) return;
    const rows = this.#noted.get(start) ?? new GpuRows();
    this.#noted.set(start, rows);
    for (const { gpuType, percent, devices } of measured) {
      const deviceMs = BigInt(devices) * BigInt(end - start);
      const busy = BigInt(Math.round(percent * MILLIONTHS)) * deviceMs;
      rows.add({ tenant, gpuType, amounts: [busy, deviceMs] });
    }
  }

  /**
   * Returns the record changes of all noted rows, to be written now. Returns the end if the ledger
   * cannot be read.
   */
  async drain(
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'drained'; readonly changes: readonly RecordChange[] } | AppendEnd> {
    const changes = new Map<string, string | undefined>();
    const slice = new TimeSlice(this.#clock);
    // In order, so that each hour and day is read once and its last record is complete.
    for (const [start, rows] of [...this.#noted].toSorted(([a], [b]) => a - b)) {
      const end = await this.#history.load(start, signal);
      if (end !== undefined) return end;
      const written = await this.#history.add(start, rows.list(), slice);
      for (const { key, value } of written) changes.set(key, value);
      this.#noted.delete(start);
    }
    return { kind: 'drained', changes: [...changes].map(([key, value]) => ({ key, value })) };
  }
}
