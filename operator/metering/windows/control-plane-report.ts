import type { Diagnostics } from '../meters/meter-reports.ts';
import { compareBytewise } from '../../model/bytewise.ts';
import { toSeconds } from './gpu-report.ts';

/** What pods of control planes used in a window (docs/how-to/operate.md#control-planes). */
export interface ControlPlaneReport {
  /** Pods. */
  readonly total: number;
  /** Core-seconds that nobody is billed for, by the basis of the tenant cluster. */
  readonly cpuSeconds: number;
  /** GPU-seconds, which are billed to the tenant; absent where there are none. */
  readonly gpuSeconds?: number;
  /** The first ten, those with most CPU time first: `namespace/name (12 core-seconds)`. */
  readonly items: readonly string[];
}

const SHOWN = 10;
const NANOS = 1_000_000_000n;

/** Undefined where no pod of a control plane was measured. */
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
      const held = use.gpu === 0n ? '' : `, ${toSeconds(use.gpu)} GPU-seconds`;
      return `${name} (${coreSeconds(use.cpu)} core-seconds${held})`;
    }),
  };
}

/** Of nano-cores × milliseconds, to the millisecond. */
function coreSeconds(cpu: bigint): number {
  return Number(cpu / NANOS) / 1000;
}
