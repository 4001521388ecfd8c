import { compareBytewise } from '../model/bytewise.ts';
import type { FailedTenantApi } from './tenant-api.ts';

/**
 * All failures, one for each tenant cluster, sorted by it. Of several the first list's counts, since
 * when the earliest began: without a kubeconfig it is no news that the watches fail.
 */
export function mergeFailures(
  ...lists: readonly (readonly FailedTenantApi[])[]
): readonly FailedTenantApi[] {
  const merged = new Map<string, FailedTenantApi>();
  for (const failure of lists.flat()) {
    const known = merged.get(failure.tenantCluster);
    merged.set(
      failure.tenantCluster,
      known === undefined ? failure : { ...known, since: Math.min(known.since, failure.since) },
    );
  }
  return [...merged.values()].toSorted((a, b) => compareBytewise(a.tenantCluster, b.tenantCluster));
}
