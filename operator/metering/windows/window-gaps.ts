import { namespacesOf, type TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { Window } from '../../model/window.ts';
import { NamespaceChanges } from '../timelines/host-namespace.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { DueWindow } from './due-windows.ts';
import {
  type Gap,
  NO_TENANCY,
  omittedSliceGaps,
  unsampledGaps,
  type UsageFailure,
  type UsageFailures,
} from './gaps.ts';
import type { Measured } from './measure-window.ts';
import { excludedNodesGap } from './private-node-limit.ts';

/** What measuring a closed window could not determine, as gaps. */
export function windowGaps(
  { window, members }: DueWindow,
  {
    diagnostics,
    privateNodeDiagnostics,
    excludedNodes,
  }: Pick<Measured, 'diagnostics' | 'privateNodeDiagnostics' | 'excludedNodes'>,
  {
    usageFailures,
    tenantUsageFailure,
    isDiscovered,
  }: {
    /** Failures of this cluster's metrics API. */
    readonly usageFailures: UsageFailures;
    /** Failure of a tenant cluster's own metrics API. */
    readonly tenantUsageFailure: (id: string) => UsageFailure | undefined;
    /** A discovery pass succeeded since the start of this process. */
    readonly isDiscovered: boolean;
  },
): readonly Gap[] {
  const pods: readonly ObservationReader[] = members
    .filter(({ scope }) => /^pods(\/|$)/.test(scope.name))
    .map(({ scope }) => scope.observation);
  const droppedUntil = Math.max(...pods.map(({ usage }) => usage.droppedUntil));
  return [
    ...[...privateNodeDiagnostics].flatMap(([id, found]) => [
      ...unsampledGaps(window, found, { all: undefined, of: tenantUsageFailure }),
      ...omittedSliceGaps(window, found, id),
    ]),
    ...[...excludedNodes].map(([id, held]) => excludedNodesGap(window, id, held)),
    ...omittedSliceGaps(window, diagnostics),
    ...(pods.length > 0 ? unsampledGaps(window, diagnostics, usageFailures, droppedUntil) : []),
    ...(isDiscovered ? pods : []).flatMap((observation) => noTenancyGaps(window, observation)),
  ];
}

/**
 * Returns a gap for each tenant cluster whose pods ran in a window while its namespace had no
 * tenant (docs/explanation/gaps.md#pods-without-a-tenant). Whatever the cause, events are missing,
 * which is not zero usage. Call it after a discovery pass of this process, which shows whose each
 * namespace is. A namespace counts from its creation, or from when its Namespace began to name its
 * tenant cluster.
 */
function noTenancyGaps(
  window: Window,
  observation: Pick<ObservationReader, 'tenantClusters' | 'pods' | 'namespaces'>,
): readonly Gap[] {
  const { tenantClusters, pods, namespaces } = observation;
  const { start, end } = window;
  let changes: NamespaceChanges | undefined;
  const ownedSince = (cluster: TenantCluster, namespace: string): number => {
    const mapped = cluster.syncedNamespaces?.find(({ name }) => name === namespace);
    if (mapped === undefined) return cluster.createdAt;
    changes ??= new NamespaceChanges(namespaces);
    const mapping = changes.statedSince(namespace);
    return mapping?.always === false ? mapping.at : mapped.createdAt;
  };
  const ranFrom = (cluster: TenantCluster, namespace: string): number | undefined => {
    if (tenantClusters.tenancies(namespace, start, end).length > 0) return undefined;
    const from = Math.max(start, ownedSince(cluster, namespace));
    for (const { spans } of pods.inNamespace(namespace)) {
      const ran = spans.some(
        (span) => span.state.phase === 'running' && span.from < end && span.to > from,
      );
      if (ran && from < end) return from;
    }
    return undefined;
  };
  return tenantClusters.current
    .filter(({ excluded }) => !excluded)
    .flatMap((cluster) => {
      const starts = namespacesOf(cluster).flatMap((name) => ranFrom(cluster, name) ?? []);
      if (starts.length === 0) return [];
      const from = Math.min(...starts);
      return [{ source: 'discovery', scope: cluster.id, from, to: end, reason: NO_TENANCY }];
    });
}
