import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Gap } from '../windows/gaps.ts';

/**
 * Usage samples that were missed cannot be had later, and what the collector gave up is given up;
 * everything else may still be filled (design 6).
 */
const NEVER_FILLED = ['metrics', 'collector'];

/** Whether usage of a tenant may still come out of a gap: its offboarding has to wait for that (design 7). */
export function hasOpenGaps(
  tenant: string,
  gaps: readonly Gap[],
  clusters: readonly TenantCluster[],
  fillableFrom: number,
): boolean {
  const own = new Set(clusters.filter((each) => each.tenant === tenant).map(({ id }) => id));
  const others = new Set(clusters.map(({ id }) => id).filter((id) => !own.has(id)));
  // A gap of a whole scope, such as all pods, may hide usage of anybody.
  return gaps.some(
    ({ source, scope, to }) =>
      !NEVER_FILLED.includes(source) && to > fillableFrom && !others.has(scope),
  );
}
