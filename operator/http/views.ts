import type { Credit, CreditOutcome, CreditRequest } from '../billing/budgets/credits.ts';
import type { Role, Settings } from '../settings/settings.ts';
import type { DestinationStatus } from '../delivery/destination-status.ts';
import type { UnknownDestination, UnusableDestination } from '../delivery/delivery.ts';
import type { CorrectionPrediction } from '../delivery/operations/correction-prediction.ts';
import type {
  DeadLetterPage,
  DiscardOutcome as Discarded,
  MoveOutcome as Moved,
  OperationFailed,
  ReplayOutcome as Replayed,
} from '../delivery/operations/outcomes.ts';
import type { PriceComparison, PriceQuestion } from '../delivery/operations/price-comparison.ts';
import type { ReconcileRow, ReconcileQuery } from '../delivery/operations/reconcile.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import type { Enforcement, TenantBillingState } from '../billing/enforcement/enforcement.ts';
import type { Explanation } from '../metering/meters/explanation.ts';
import type { StoredEvent } from '../ledger/ledger.ts';
import type { BudgetCounts } from '../model/budget.ts';
import type { Catalog } from '../model/catalog.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { FailedTenantApi } from '../tenant-api/tenant-api.ts';
import type { Gap } from '../metering/windows/gaps.ts';
import type { Noticed } from '../delivery/noticed.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';

export type { WantsForce } from '../delivery/operations/outcomes.ts';
export type { SetAsideEvent as DeadLetter } from '../delivery/records/delivery-records.ts';
export type { Gap };

/** What the API reads of the rest of the operator. Every call answers from memory, at once. */
export interface Views {
  settings(): Settings;
  catalog(): Catalog;
  /** False until every PriceBook has been looked at: what has no price is not known before. */
  pricesKnown(): boolean;
  readonly discovery: DiscoveryView;
  readonly metering: MeteringView;
  readonly destinations: DestinationsView;
  billingState(tenant: string): TenantBillingState;
  /** This one and those after it: of the operator of a cluster, which a hub is not (docs/how-to/fleet.md#the-api-of-a-hub). */
  readonly held?: HeldView;
  /** What events were made of. */
  readonly explanations?: {
    find(event: UsageEvent): Promise<
      | { readonly kind: 'found'; readonly explanation: Explanation }
      /** Measured by a query: as it is asked today; absent where the tenant cluster is no longer known. */
      | { readonly kind: 'asked'; readonly promql?: string }
      | { readonly kind: 'gone'; readonly reason: string }
    >;
  };
  readonly enforcement?: EnforcementView;
  /** Undefined of a tenant that has none, and of one whose account is not made yet. */
  readonly budgets?: Pick<BudgetController, 'of'>;
  readonly credits?: {
    add(request: CreditRequest): Promise<CreditOutcome>;
    /** In no particular order; throws where the ledger cannot be read. */
    list(tenant: string): AsyncIterable<Credit>;
    /** What is used since the first credit, in the units of a budget; undefined while that is not known. */
    used(tenant: string, counts: BudgetCounts): bigint | undefined;
    /** What the tenant's prepaid budget counts; undefined where it has none, or that is not known. */
    counts(tenant: string): BudgetCounts | undefined;
  };
  /** The streams of the fleet; of an operator by itself, its own. */
  fleet(): readonly FleetStreamView[];
  /** What must hold before `/readyz` says ok, in the order it is shown. */
  readiness(): readonly ReadinessCheck[];
  /** Whether this process leads now; absent where no other process could. */
  readonly leads?: () => boolean;
}

/** A stream of the fleet. Times are milliseconds since the epoch. */
export interface FleetStreamView {
  /** CLUSTER_NAME. */
  readonly cluster: string;
  readonly region: string;
  /** Why it is not read, or not fed, if that is so. */
  readonly problem?: string;
  /** That were ever appended. */
  readonly events: number;
  readonly lastWindowEnd?: number;
  /** Of the destination that is furthest behind. */
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** What its meter tells; absent while it has told nothing. */
  readonly report?: {
    readonly version: string;
    readonly role: Role;
    readonly ready: boolean;
    readonly waitsFor: readonly string[];
    /** How long ago it told anything new. */
    readonly reportedMsAgo: number;
    readonly windowMs: number;
    readonly tenants: number;
    readonly tenantClusters: number;
    readonly gaps: number;
    /** How many. */
    readonly failedTenantApis: number;
    readonly unattributed: number;
  };
}

/** The way of pushed usage into the ledger, and what is held on it. */
export type HeldView = Omit<HeldUsage, 'load' | 'releaseKnown'>;

export interface ReadinessCheck {
  readonly name: string;
  readonly ok: boolean;
  /** Why not, or more about it. */
  readonly detail?: string;
}

export interface DiscoveryView {
  /** False until one discovery round has succeeded: who is metered here is not known before. */
  readonly known: () => boolean;
  /** When it was last looked which tenant clusters there are, milliseconds since the epoch; undefined before. */
  readonly lookedAt: () => number | undefined;
  tenants(): readonly Tenant[];
  clusters(): readonly TenantCluster[];
  /** Bad metadata and ambiguities, one line each. */
  problems(): readonly string[];
}

export interface MeteringView {
  /** Tenant clusters whose own API could not be read, see docs/how-to/private-nodes.md. */
  failedTenantApis(): readonly FailedTenantApi[];
  /** Ids of tenant clusters that nobody gave a kubeconfig for, and that are not known to need one. */
  withoutKubeconfig(): readonly string[];
  /** Why the metrics API cannot be read, if that is so: CPU and memory usage are gaps meanwhile. */
  metricsFailure(): { readonly reason: string; readonly since: number } | undefined;
  /** Objects of the last window that nobody can be billed for. */
  unattributed(): Unattributed;
  /** Stretches that could not be measured and are not filled yet. */
  gaps(): readonly Gap[];
  /** Such stretches of before RETENTION, of the last 62 days at least. */
  pastGaps(): readonly Gap[];
  /** Reports of the windows closed last, newest first, as plain JSON; each is read when it is asked for. */
  windows(): IteratorObject<WindowReportView, undefined>;
}

/** Objects that cannot be told whose they are, see docs/reference/troubleshooting.md#unattributed-usage. */
export interface Unattributed {
  readonly total: number;
  /** The first ten with their reasons, those that hold most GPU time first. */
  readonly items: readonly string[];
  readonly gpuSeconds: number;
  /** How many of them held GPUs. */
  readonly gpuObjects: number;
}

export interface WindowReportView {
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly end: number;
  readonly events: number;
  readonly gaps: readonly Gap[];
  /** Whatever else the report says, as plain JSON with camelCase names. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Billing states, and what follows from them. */
export type EnforcementView = Omit<
  Enforcement,
  'load' | 'run' | 'applyBudgets' | 'limitedByBudgets'
>;

/** The delivery engine as operators see it. */
export interface DestinationsView {
  list(): readonly DestinationStatusView[];
  /** What `kubectl get` shows of it under STATUS: `OK`, or the worst condition that holds (docs/reference/troubleshooting.md#conditions). */
  summaryOf(destination: DestinationStatusView): string;
  /** A page of the dead letters after a sequence number; undefined when there is no such destination. */
  deadLetters(name: string, after: number, limit: number): Promise<DeadLetterPage | undefined>;
  /**
   * Sends dead letters once more, those of closed periods and those that may be billed twice by force only; all of them when
   * no ids are given.
   */
  replay(name: string, ids: readonly string[] | undefined, force: boolean): Promise<ReplayOutcome>;
  /** Gives dead letters up for good; all of them when no ids are given. */
  discard(name: string, ids: readonly string[] | undefined): Promise<DiscardOutcome>;
  /**
   * Puts the cursor at a position, back over usage of closed periods by force only; warnings name horizons
   * beyond which the destination may bill twice.
   */
  moveCursor(name: string, sequence: number, force: boolean): Promise<MoveOutcome>;
  /** Compares the ledger's sums of whole UTC days with what the destination has recorded. */
  reconcile(name: string, query: ReconcileQuery, signal: AbortSignal): Promise<ReconcileOutcome>;
  /** Holds price books against the prices that a destination has; nothing is changed there. */
  comparePrices(
    name: string,
    question: PriceQuestion,
    signal: AbortSignal,
  ): Promise<PriceComparison | UnknownDestination | UnusableDestination>;
  /** What would become of a correction of an event there; undefined when there is no such destination. */
  predictCorrection(name: string, stored: StoredEvent): Promise<CorrectionPrediction | undefined>;
}

export type ReconcileOutcome =
  | { readonly kind: 'reconciled'; readonly rows: readonly ReconcileRow[] }
  | OperationFailure;

/** Where delivery to one destination stands, with what is compared there. */
export type DestinationStatusView = Omit<DestinationStatus, 'delivering' | 'eventsPerSecond'> &
  Noticed;

export type OperationFailure = UnknownDestination | OperationFailed;
export type ReplayOutcome = Replayed | UnknownDestination;
export type DiscardOutcome = Discarded | UnknownDestination;
export type MoveOutcome = Moved | UnknownDestination;
