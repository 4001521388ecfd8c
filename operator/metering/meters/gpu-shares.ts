import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { GpuBalance, GpuShare } from './meter-reports.ts';

/** GPUs of a model on a node at one moment, in {@link UNITS_PER_GPU}, with their allocations. */
interface SharedMoment
  extends Pick<GpuBalance, 'type' | 'installed' | 'idle' | 'downtime' | 'system'> {
  /** The tenant cluster that is billed the complete node. */
  readonly owner: TenantCluster | undefined;
  readonly isDown: boolean;
  readonly allocations: readonly {
    readonly units: bigint;
    readonly cluster: TenantCluster | undefined;
  }[];
}

type Running = { -readonly [Key in keyof GpuShare]: GpuShare[Key] };

/**
 * Adds a moment to the shares of tenants
 * (docs/explanation/gpus.md#delivered-healthy-reserved-in-use). `delivered` of all rows sums to
 * what is installed, and `healthy` to what is not down.
 */
export function addShares(shares: Map<string, GpuShare>, moment: SharedMoment, ms: bigint): void {
  const { type, installed, idle, downtime, system, owner, isDown, allocations } = moment;
  const add = (tenant: string | undefined, amounts: readonly bigint[]): void => {
    const [delivered = 0n, healthy = 0n, reserved = 0n, inUse = 0n] = amounts;
    const row = rowOf(shares, tenant, type);
    row.delivered += delivered * ms;
    row.healthy += healthy * ms;
    row.reserved += reserved * ms;
    row.inUse += inUse * ms;
  };
  if (owner !== undefined) {
    const healthy = installed - downtime;
    const own = allocations.reduce(
      (sum, { units, cluster }) => (cluster?.id === owner.id ? sum + units : sum),
      0n,
    );
    add(owner.tenant, [installed, healthy, installed, own < healthy ? own : healthy]);
    return;
  }
  if (isDown) {
    add(undefined, [installed]);
    return;
  }
  for (const { units, cluster } of allocations) {
    if (cluster !== undefined) add(cluster.tenant, [units, units, units, units]);
  }
  add(undefined, [idle + downtime + system, idle + system, 0n, system]);
}

function rowOf(shares: Map<string, GpuShare>, tenant: string | undefined, type: string): Running {
  const key = JSON.stringify([tenant, type]);
  const row: Running = {
    ...(shares.get(key) ?? { tenant, type, delivered: 0n, healthy: 0n, reserved: 0n, inUse: 0n }),
  };
  shares.set(key, row);
  return row;
}
