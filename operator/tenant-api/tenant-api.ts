import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { compareBytewise } from '../model/bytewise.ts';

/**
 * The API of one tenant cluster with private nodes, reached with the kubeconfig of its owner
 * (docs/how-to/private-nodes.md). Everything that it returns is the tenant's own information.
 */
export interface TenantApi {
  /** Latest state from discovery; `cluster.id` identifies the API. */
  readonly cluster: TenantCluster;
  /**
   * Bounded in time and bytes, never redirected, without the operator's credentials. Its creator
   * closes it when the kubeconfig changes or the tenant cluster goes.
   */
  readonly connection: Connection;
}

/** How a tenant cluster's API can be reached, if at all. */
export type Reachability =
  | ({ readonly kind: 'reachable' } & TenantApi)
  | { readonly kind: 'unreachable'; readonly cluster: TenantCluster; readonly reason: string }
  /** Gone, or not metered through its API any longer. */
  | { readonly kind: 'gone' };

/** Returns whether an unreachable API is a failure: private nodes are known there. */
export function isMissed(reachability: Reachability): boolean {
  return reachability.kind !== 'unreachable' || declaresPrivateNodes(reachability.cluster);
}

/** Returns whether discovery alone knows that a tenant cluster has private nodes. */
export function declaresPrivateNodes({ source, nodeMode }: TenantCluster): boolean {
  return source === 'external' || nodeMode === 'private';
}

/** A tenant cluster with an unreadable API, as `GET /api/v1/status` lists it. */
export interface FailedTenantApi {
  readonly tenantCluster: string;
  /** Names the offending field or answer; never contains a credential. */
  readonly reason: string;
  /** Start of the failure, milliseconds since the epoch. */
  readonly since: number;
}

/**
 * A tenant cluster without an accepted kubeconfig.
 * - `absent`: none exists, which is usual without private nodes.
 * - `refused`: the kubeconfig is not accepted.
 * - `unread`: the request for it failed.
 */
export interface MissingKubeconfig extends FailedTenantApi {
  readonly kind: 'absent' | 'refused' | 'unread';
}

/**
 * Merges failures into one per tenant cluster, sorted by it. The reason comes from the first list
 * with the tenant cluster, and the start from the earliest failure. So a missing kubeconfig hides
 * the failed watches that it causes.
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
