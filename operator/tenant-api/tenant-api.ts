import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { compareBytewise } from '../model/bytewise.ts';

/**
 * The API of one tenant cluster that has nodes of its own, reached with the kubeconfig that its
 * owner left for us (docs/how-to/private-nodes.md). What comes over it is the tenant's own word.
 */
export interface TenantApi {
  /** As discovery last saw it; `cluster.id` is what the API is known by. */
  readonly cluster: TenantCluster;
  /**
   * Bounded in time and bytes, never redirected, without credentials of ours. Closed by whoever
   * opened it when the kubeconfig changes or the tenant cluster goes.
   */
  readonly connection: Connection;
}

/** Whether a tenant cluster's API can be talked to. */
export type Reachability =
  | ({ readonly kind: 'reachable' } & TenantApi)
  | { readonly kind: 'unreachable'; readonly cluster: TenantCluster; readonly reason: string }
  /** It is gone, or not to be metered through its API any more. */
  | { readonly kind: 'gone' };

/** That an API cannot be reached matters where the tenant cluster is known to have nodes of its own. */
export function isMissed(reachability: Reachability): boolean {
  return reachability.kind !== 'unreachable' || saysPrivateNodes(reachability.cluster);
}

/** Whether discovery knows by itself that a tenant cluster has nodes of its own. */
export function saysPrivateNodes({ source, nodeMode }: TenantCluster): boolean {
  return source === 'external' || nodeMode === 'private';
}

/** A tenant cluster whose API could not be read, as `GET /api/v1/status` lists it. */
export interface FailedTenantApi {
  readonly tenantCluster: string;
  /** Names the offending field or the answer; never a credential. */
  readonly reason: string;
  /** Milliseconds since the epoch: when it began to fail. */
  readonly since: number;
}

/**
 * A tenant cluster without an accepted kubeconfig. `absent`: nobody gave one, as is usual where there are no nodes of its own;
 * `refused`: what was given is not accepted; `unread`: it could not be asked for.
 */
export interface MissingKubeconfig extends FailedTenantApi {
  readonly kind: 'absent' | 'refused' | 'unread';
}

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
