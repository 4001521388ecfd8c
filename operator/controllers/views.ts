import type { Backlog, DestinationStatus } from '../delivery/destination-status.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { OverrideUse } from '../discovery/discover.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { PrometheusReport } from '../prometheus/prometheus-report.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';
import type { Gap } from '../metering/windows/gaps.ts';

/*
 * What the controllers see of the engine to report it in status. Every call answers from
 * memory, at once. Times are milliseconds since the epoch.
 */

/** The delivery engine. */
export interface DeliveryView {
  /** Every destination that is being fed, of custom resources and of the environment. */
  list(): readonly DestinationProgress[];
}

/** With what concerns BillingDestinations alone. */
export interface BillingView extends DeliveryView {
  /** What waits for a destination, also for one that cannot be fed; undefined where it has no cursor. */
  backlog(name: string): Backlog | undefined;
}

/** Where delivery to one destination stands, as far as a status shows it. */
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
  /** False until one discovery round has succeeded. */
  readonly known: () => boolean;
  clusters(): readonly TenantCluster[];
  /** Bad metadata and ambiguities, one line each. */
  problems(): readonly string[];
  /** Where each TenantOverride applies, as of the last round. */
  overrides(): readonly OverrideUse[];
}

/** The collector. */
export interface WindowsView {
  /** End of the last closed window; undefined before the first. */
  lastWindowEnd(): number | undefined;
  /** Stretches that could not be measured, and are not filled. */
  gaps(): readonly Gap[];
  /** Tenant clusters whose own API could not be read (docs/reference/troubleshooting.md#failed-tenant-apis). */
  failedTenantApis(): readonly FailedTenantApi[];
  /** How many tenant clusters nobody gave a kubeconfig for that are not known to need one. */
  withoutKubeconfig(): number;
  /** Objects of the last window that nobody can be billed for, those that hold most GPU time first. */
  unattributed(): {
    readonly items: readonly string[];
    readonly gpuSeconds: number;
    readonly gpuObjects: number;
  };
  /** What is wrong with the queries to Prometheus. */
  prometheus(): PrometheusReport;
  /** Why the metrics API cannot be read, if that is so. */
  metricsFailure(): { readonly reason: string; readonly since: number } | undefined;
}
