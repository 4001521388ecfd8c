import type { Diagnostics } from '../../meters/meter-reports.ts';
import { type GpuRow, GpuRows } from './gpu-series.ts';

/** GPU time of a window by tenant and without one, and the installed GPUs of each model. */
export function shareRows(
  diagnostics: readonly Pick<Diagnostics, 'gpuShares' | 'gpuBalances'>[],
): readonly GpuRow[] {
  const rows = new GpuRows();
  for (const { gpuShares, gpuBalances } of diagnostics) {
    for (const { tenant, type: gpuType, ...share } of gpuShares.values()) {
      const { delivered, healthy, reserved, inUse } = share;
      rows.add({ tenant, gpuType, amounts: [delivered, healthy, reserved, inUse, 0n] });
    }
    for (const { type: gpuType, installed } of gpuBalances) {
      rows.add({ tenant: undefined, gpuType, amounts: [0n, 0n, 0n, 0n, installed] });
    }
  }
  return rows.list().filter(({ amounts }) => amounts.some((amount) => amount !== 0n));
}
