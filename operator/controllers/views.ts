import type { Backlog, DestinationStatus } from '../delivery/destination-status.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { OverrideUse } from '../discovery/discover.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { PrometheusReport } from '../prometheus/prometheus-report.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';
import type { Gap } from '../metering/windows/gaps.ts';

/*
 * Views of the engine for the status of custom resources. Every call answers from memory, at once.
 * Times are milliseconds since the epoch.
 */

/** The delivery engine. */
export interface BillingView {
  /** Returns every destination with a feeder, of custom resources and of the environment. */
  list(): readonly DestinationProgress[];
  /** Returns the events that wait for a destination, usable or not; undefined without a cursor. */
  backlog(name: string): Backlog | undefined;
}

/** The state of delivery to one destination, as a status shows it. */
export type DestinationProgress = Noticed &
  Omit<
    DestinationStatus,
    | 'type'
    | 'ready'
    | 'delivering'
    | 'problem'
    | 'backlog'
    | 'skipped'
    | 'parked'
    | 'offboarding'
    | 'eventsPerSecond'
    | 'lastErrorAt'
  >;

/** Discovery. */
export interface TenantsView {
  /** False until one discovery pass has succeeded. */
  readonly known: () => boolean;
  clusters(): readonly TenantCluster[];
  /** Returns bad metadata and ambiguities, one line each. */
  problems(): readonly string[];
  /** Returns where each TenantOverride applies, by the last discovery pass. */
  overrides(): readonly OverrideUse[];
}

/** The collector. */
export interface WindowsView {
  /** Returns the end of the last closed window; undefined before the first. */
  lastWindowEnd(): number | undefined;
  /** Returns periods that could not be measured and are not backfilled. */
  gaps(): readonly Gap[];
  /**
   * Returns tenant clusters with an unreadable API
   * (docs/reference/troubleshooting.md#failed-tenant-apis).
   */
  failedTenantApis(): readonly FailedTenantApi[];
  /** Returns the number of tenant clusters without a kubeconfig that are not known to need one. */
  withoutKubeconfig(): number;
  /** Returns objects of the last window without a tenant to bill, most GPU time first. */
  unattributed(): {
    readonly items: readonly string[];
    readonly gpuSeconds: number;
    readonly gpuObjects: number;
  };
  /** Returns the problems with the queries to Prometheus. */
  prometheus(): PrometheusReport;
  /** Returns why the metrics API cannot be read; undefined if it can. */
  metricsFailure(): { readonly reason: string; readonly since: number } | undefined;
}
