import type { OverrideUse } from '../../discovery/discover.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { PolicyViews } from '../policy-status.ts';
import type { DestinationProgress, TenantsView, WindowsView } from '../views.ts';

/** A healthy destination; tests change what they are about. */
export function progressOf(
  name: string,
  change: Partial<DestinationProgress> = {},
): DestinationProgress {
  return {
    name,
    suspended: false,
    cursor: 12,
    lagEvents: 3,
    lagSeconds: 9.6,
    delivered: 7,
    deadLetters: 0,
    parkedTenants: [],
    planChanges: [],
    unknownMetrics: [],
    unpriced: [],
    lateRefusals: [],
    bootstrapped: true,
    consecutiveFailures: 0,
    ...change,
  };
}

/** A tenant cluster `<namespace>/<name>`. */
export function clusterOf(
  namespace: string,
  name: string,
  change: Partial<TenantCluster> = {},
): TenantCluster {
  const id = `tenant-${namespace}-${name}`;
  return {
    id,
    source: 'workload',
    namespace,
    name,
    tenant: id,
    displayName: id,
    excluded: false,
    enforcementExempt: false,
    createdAt: 0,
    metering: {
      cpuMemoryBasis: 'usage',
      meterControlPlane: false,
      meterByNamespace: false,
      meterByQueue: false,
      gpuQuantity: 'equivalents',
      privateNodeBilling: 'node',
      privateNodeTrust: 'tenant',
      maxPrivateNodes: 1_000,
      excludeNamespaces: [],
      podLifetime: 'running',
    },
    overrides: [],
    ...change,
  };
}

/** Discovery that knows where overrides apply. */
export function usesOf(...uses: readonly OverrideUse[]): TenantsView {
  return { ...tenantsOf(), overrides: () => uses };
}

export function tenantsOf(...clusters: readonly TenantCluster[]): TenantsView {
  return { known: () => true, clusters: () => clusters, problems: () => [], overrides: () => [] };
}

/** An engine at rest; tests change what they are about. */
export function viewsOf(change: Partial<PolicyViews> = {}): PolicyViews {
  return {
    delivery: { list: () => [] },
    tenants: tenantsOf(),
    windows: windowsOf(),
    held: { list: () => [], pushedTenants: () => [] },
    budgets: { list: () => [] },
    anchors: { problems: () => [] },
    focusProblem: () => undefined,
    enforcement: {
      mode: () => 'observe',
      status: () => ({ suspendedClusters: [], pending: 0, problems: [] }),
    },
    ledger: {
      stats: () => ({
        ledgerId: 'a-ledger',
        sequence: 42,
        bytes: 4_096,
        segments: 1,
        chain: 'c0ffee',
        disk: EMPTY_DISK,
        problems: [],
      }),
    },
    ...change,
  };
}

export const EMPTY_DISK = { level: 'normal', usedRatio: 0.1, retentionShortened: false } as const;

export function windowsOf(change: Partial<WindowsView> = {}): WindowsView {
  return {
    lastWindowEnd: () => undefined,
    gaps: () => [],
    failedTenantApis: () => [],
    withoutKubeconfig: () => 0,
    unattributed: () => ({ items: [], gpuSeconds: 0, gpuObjects: 0 }),
    metricsFailure: () => undefined,
    prometheus: () => ({ leftOut: [] }),
    ...change,
  };
}
