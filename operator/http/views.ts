import type { Credits } from '../billing/budgets/credits.ts';
import type { Role, Settings } from '../settings/settings.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import type { Enforcement, TenantBillingState } from '../billing/enforcement/enforcement.ts';
import type { Explanation } from '../metering/meters/explanation.ts';
import type { Catalog } from '../model/catalog.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { AccessCheck } from '../intake/access-check.ts';
import type { Intake } from '../intake/intake.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';

export type { SetAsideEvent as DeadLetter } from '../delivery/records/delivery-records.ts';
export type { Gap };

/** The state of the operator as the API reads it. Calls without a promise answer from memory. */
export interface Views {
  settings(): Settings;
  catalog(): Catalog;
  /** False until every PriceBook has been read; until then missing prices are unknown. */
  pricesKnown(): boolean;
  readonly discovery: DiscoveryView;
  readonly metering: MeteringView;
  readonly destinations: DestinationsView;
  billingState(tenant: string): TenantBillingState;
  /**
   * Held usage. A hub has none, and no `explanations`, `enforcement`, `budgets` and `credits`
   * either (docs/how-to/fleet.md#the-api-of-a-hub).
   */
  readonly held?: HeldView;
  /** How collected events were measured. */
  readonly explanations?: {
    find(event: UsageEvent): Promise<
      | { readonly kind: 'found'; readonly explanation: Explanation }
      /**
       * Measured by a query. `promql` is the query by today's settings; absent when the tenant
       * cluster is unknown now.
       */
      | { readonly kind: 'asked'; readonly promql?: string }
      | { readonly kind: 'gone'; readonly reason: string }
    >;
  };
  readonly enforcement?: EnforcementView;
  readonly budgets?: Pick<BudgetController, 'of' | 'prepaidUsed' | 'prepaidCounts'>;
  /** Takes the requests that gateways report. */
  readonly intake?: Pick<Intake, 'accept' | 'isReady' | 'stats' | 'deadLetters'>;
  /** Answers gateways whether a tenant may use more. */
  readonly access?: Pick<AccessCheck, 'of'>;
  readonly credits?: Pick<Credits, 'add' | 'list'>;
  /** The streams of the fleet; an operator without a hub has one. */
  fleet(): readonly FleetStreamView[];
  /** The checks of `/readyz`, in the order in which it lists them. */
  readiness(): readonly ReadinessCheck[];
  /** Whether this process leads now; absent where no other process could. */
  readonly leads?: () => boolean;
}

/** A stream of the fleet. Times are milliseconds since the epoch. */
export interface FleetStreamView {
  /** CLUSTER_NAME. */
  readonly cluster: string;
  readonly region: string;
  /** Why the hub does not read or feed the stream; absent when it does. */
  readonly problem?: string;
  /** Events that were ever appended. */
  readonly events: number;
  readonly lastWindowEnd?: number;
  /** Events that the destination furthest behind still has to deliver. */
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** The last report of its meter; absent before the first. */
  readonly report?: {
    readonly version: string;
    readonly role: Role;
    readonly ready: boolean;
    readonly waitsFor: readonly string[];
    /** Milliseconds since the last new report. */
    readonly reportedMsAgo: number;
    readonly windowMs: number;
    readonly tenants: number;
    readonly tenantClusters: number;
    readonly gaps: number;
    readonly failedTenantApis: number;
    readonly unattributed: number;
  };
}

/** Accepts pushed usage into the ledger, and holds usage of unknown tenants. */
export type HeldView = Omit<HeldUsage, 'load' | 'releaseKnown' | 'room' | 'isKnown'>;

export interface ReadinessCheck {
  readonly name: string;
  readonly ok: boolean;
  /** Why the check failed, or more about it. */
  readonly detail?: string;
}

export interface DiscoveryView {
  /** False until one discovery pass has succeeded; until then the tenants are unknown. */
  readonly known: () => boolean;
  /** When the last discovery pass ran, milliseconds since the epoch; undefined before the first. */
  readonly lookedAt: () => number | undefined;
  tenants(): readonly Tenant[];
  clusters(): readonly TenantCluster[];
  /** Bad metadata and ambiguities, one line each. */
  problems(): readonly string[];
}

export interface MeteringView {
  /** Tenant clusters whose API could not be read, see docs/how-to/private-nodes.md. */
  failedTenantApis(): readonly FailedTenantApi[];
  /** Ids of tenant clusters without a kubeconfig that are not known to need one. */
  withoutKubeconfig(): readonly string[];
  /** Why the metrics API cannot be read, so that CPU and memory are gaps; else undefined. */
  metricsFailure(): { readonly reason: string; readonly since: number } | undefined;
  /** Objects of the last window that cannot be billed to any tenant. */
  unattributed(): UnattributedView;
  /** Stretches that could not be measured and are not filled yet. */
  gaps(): readonly Gap[];
  /** Gaps older than RETENTION; at least those of the last 62 days. */
  pastGaps(): readonly Gap[];
  /**
   * Reports of the last closed windows, newest first, as plain JSON. Each report is read when the
   * iterator reaches it.
   */
  windows(): IteratorObject<WindowReportView, undefined>;
}

/** Objects whose tenant is unknown, see docs/reference/troubleshooting.md#unattributed-usage. */
export interface UnattributedView {
  readonly total: number;
  /** The first ten with their reasons, those with most GPU time first. */
  readonly items: readonly string[];
  readonly gpuSeconds: number;
  readonly gpuObjects: number;
}

export interface WindowReportView {
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly end: number;
  readonly events: number;
  readonly gaps: readonly Gap[];
  /** The other fields of the report, as plain JSON with camelCase names. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Billing states and their enforcement. */
export type EnforcementView = Omit<
  Enforcement,
  'load' | 'run' | 'applyBudgets' | 'limitedByBudgets'
>;

/** The delivery engine as operators see it. */
export interface DestinationsView {
  list(): readonly DestinationStatusView[];
  /**
   * The text under STATUS in `kubectl get`: `OK`, or the worst condition that is true
   * (docs/reference/troubleshooting.md#conditions).
   */
  summaryOf(destination: DestinationStatusView): string;
  /** Operations at one destination. A hub has them for each stream. */
  readonly operations?: DestinationOperations;
}

export type DestinationOperations = Pick<
  Delivery,
  | 'deadLetters'
  | 'replay'
  | 'discard'
  | 'moveCursor'
  | 'reconcile'
  | 'comparePrices'
  | 'predictCorrection'
>;

/** The delivery state of one destination, with the results of its comparisons. */
export type DestinationStatusView = Omit<DestinationStatus, 'delivering' | 'eventsPerSecond'> &
  Noticed;
