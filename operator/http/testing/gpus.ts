import { createManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { silentLogger } from '../../ledger/testing/level-ledger.ts';
import { gpuUnits } from '../../model/gpu-units.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { UtilizationRecords } from '../../prometheus/utilization-records.ts';
import { GpuHistory } from '../../metering/windows/gpu-history/gpu-history.ts';
import { GPU_SHARES, type GpuRow } from '../../metering/windows/gpu-history/gpu-series.ts';
import { NOW } from './test-server.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const never = new AbortController().signal;

/** Writes GPU records of windows of a minute as the operator does. */
export interface GpuWriter {
  shares(start: number, rows: readonly GpuRow[]): Promise<void>;
  busy(
    start: number,
    tenant: string,
    gpuType: string,
    percent: number,
    devices?: number,
  ): Promise<void>;
}

export function gpuWriter(ledger: Ledger, clock = createManualClock(NOW)): GpuWriter {
  const options = { ledger, clock, logger: silentLogger };
  const history = new GpuHistory({ ...options, series: GPU_SHARES });
  const utilization = new UtilizationRecords(options);
  return {
    shares: async (start, rows) => {
      await history.load(start, never);
      await ledger.writeRecords(await history.add(start, rows, new TimeSlice(clock)));
    },
    busy: async (start, tenant, gpuType, percent, devices = 1) => {
      const window = { start, end: start + MINUTE };
      utilization.note(window, tenant, [{ gpuType, percent, devices }]);
      const drained = await utilization.drain(never);
      if (drained.kind === 'drained') await ledger.writeRecords(drained.changes);
    },
  };
}

/** GPU-hours of delivered, healthy, reserved, in use and installed, in whole GPU-hours. */
export function gpuShare(
  tenant: string | undefined,
  gpuType: string,
  gpuHours: readonly number[],
): GpuRow {
  const amounts = GPU_SHARES.fields.map((_, index) => {
    return gpuUnits(gpuHours[index] ?? 0) * BigInt(HOUR);
  });
  return { tenant, gpuType, amounts };
}
