import type { Diagnostics } from '../meters/meter-reports.ts';
import { compareBytewise } from '../../model/bytewise.ts';
import { toSeconds } from './gpu-report.ts';

/** Usage of control plane pods in a window (docs/how-to/operate.md#control-planes). */
export interface ControlPlaneReport {
  readonly total: number;
  /** Core-seconds by the tenant cluster's basis. Nobody is billed for them. */
  readonly cpuSeconds: number;
  /** GPU-seconds, which the tenant is billed for; absent if there are none. */
  readonly gpuSeconds?: number;
  /** The ten pods with the most CPU time: `namespace/name (12 core-seconds)`. */
  readonly items: readonly string[];
}

const SHOWN = 10;
const NANOS = 1_000_000_000n;

/** Returns undefined if no control plane pod was measured. */
export function controlPlaneReport({
  controlPlane,
}: Pick<Diagnostics, 'controlPlane'>): ControlPlaneReport | undefined {
  if (controlPlane.size === 0) return undefined;
  const pods = [...controlPlane].toSorted(
    ([a, one], [b, other]) => Number(other.cpu - one.cpu) || compareBytewise(a, b),
  );
  const gpu = pods.reduce((sum, [, use]) => sum + use.gpu, 0n);
  return {
    total: pods.length,
    cpuSeconds: coreSeconds(pods.reduce((sum, [, use]) => sum + use.cpu, 0n)),
    gpuSeconds: gpu === 0n ? undefined : toSeconds(gpu),
    items: pods.slice(0, SHOWN).map(([name, use]) => {
      const gpuText = use.gpu === 0n ? '' : `, ${toSeconds(use.gpu)} GPU-seconds`;
      return `${name} (${coreSeconds(use.cpu)} core-seconds${gpuText})`;
    }),
  };
}

/** Converts nano-cores × milliseconds to core-seconds, rounded to the millisecond. */
function coreSeconds(cpu: bigint): number {
  return Number(cpu / NANOS) / 1000;
}
