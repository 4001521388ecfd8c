import type { BudgetStanding } from '../billing/budgets/standing.ts';
import type { EnforcementSettings } from '../settings/settings.ts';
import type { Backlog } from '../delivery/destination-status.ts';
import type { DriftReport } from '../delivery/operations/drift-watch.ts';
import type { InvoiceReport } from '../delivery/operations/invoice-report.ts';
import type { PriceReport } from '../delivery/operations/price-watch.ts';
import type { Rate } from '../delivery/operations/rate-watch.ts';
import type { LateRefusal } from '../destinations/destination.ts';
import type { UnpricedUsage } from '../destinations/prices.ts';
import type { OverrideUse } from '../discovery/discover.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { MarkingStatus } from '../billing/enforcement/marks/marking.ts';
import type { LedgerStats } from '../ledger/ledger.ts';
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

export interface DestinationProgress {
  readonly name: string;
  /** Nothing is sent, since the settings in force say so. */
  readonly suspended: boolean;
  /** The last sequence number that is delivered or parked. */
  readonly cursor: number;
  /** End of the window of the event at the cursor, RFC 3339. */
  readonly windowEnd?: string;
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** Events accepted since the start of the process. */
  readonly delivered: number;
  readonly deadLetters: number;
  /** Tenants whose events wait until they can be served. */
  readonly parkedTenants: readonly ParkedTenantReport[];
  /** Changes of plan that are still to be made, the first twenty. */
  readonly planChanges: readonly PlanChangeReport[];
  /** Codes that its `spec.metrics` name and the catalogue lacks. */
  readonly unknownMetrics: readonly string[];
  /** Kinds of usage that came and that nobody has priced at the billing system. */
  readonly unpriced: readonly UnpricedUsage[];
  /** Usage that the billing system took and refused later. */
  readonly lateRefusals: readonly LateRefusal[];
  /** How yesterday compared there; undefined before the first comparison. */
  readonly drift?: DriftReport;
  /** How its prices compare with the price books; undefined before the first look, and where none concerns it. */
  readonly prices?: PriceReport;
  /** How its invoices compare with what it was given; undefined before the first look. */
  readonly invoices?: InvoiceReport;
  /** How much of what it takes is in use; undefined where it names no limit. */
  readonly rate?: Rate;
  /** It takes fewer events a second than come. */
  readonly tooSlow?: Rate;
  /** Whether the billing system has what it needs before any event. */
  readonly bootstrapped: boolean;
  /** Why nothing is sent until an operator acts, if that is so. */
  readonly held?: string;
  /** Attempts that failed since the last one that succeeded. */
  readonly consecutiveFailures: number;
  readonly lastSuccessAt?: number;
  /** Why the last attempt failed, without secrets; absent once one succeeds. */
  readonly lastError?: string;
}

export interface PlanChangeReport {
  readonly tenant: string;
  readonly from: string;
  readonly to: string;
  /** Usage whose window starts from then on belongs to the new plan. */
  readonly at: number;
  /** Why it was not made at the last attempt. */
  readonly problem?: string;
}

export interface ParkedTenantReport {
  readonly tenant: string;
  readonly reason: string;
  readonly events: number;
  readonly since: number;
}

/** Usage that was pushed in. */
export interface HeldView {
  /** What is held of tenants that nobody knows. */
  list(): readonly { readonly tenant: string; readonly events: number }[];
  /** Tenants that only pushed usage tells of. */
  pushedTenants(): readonly { readonly id: string }[];
}

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

/** Budgets of tenants. */
export interface BudgetsView {
  /** Every tenant that has one and whose account is made: of all, or of one TenantOverride. */
  list(override?: string): readonly BudgetStanding[];
}

/** Enforcement. */
export interface EnforcementView {
  readonly mode: () => EnforcementSettings['mode'];
  /** How far marks on objects are from what they should be, and why. */
  readonly status: () => MarkingStatus;
}

export interface LedgerView {
  stats(): Pick<
    LedgerStats,
    'ledgerId' | 'sequence' | 'bytes' | 'segments' | 'chain' | 'disk' | 'problems'
  >;
}
