import type { BudgetNotice } from '../model/budget-notice.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import type { Decimal } from '../model/decimal.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Alert, UnbilledUsage } from './alerts.ts';
import type { FailedStep } from './failed-step.ts';
import type { LateBiller } from './late.ts';
import type { Invoices } from './invoices.ts';
import type { Prices } from './prices.ts';

/**
 * A billing system as the delivery engine sees it: `send`, and the members that sending needs.
 * Everything else is a capability: an optional object, such as `destination.plans?.change(…)`.
 *
 * A destination knows nothing of Kubernetes or the ledger: it receives events and tenants and
 * returns outcomes. It never retries and has no cursor; the feeder does both. It sleeps only for a
 * rate limit.
 */
export interface Destination {
  /** The spelling that the user chose in ADAPTERS, or the name of the custom resource. */
  readonly name: string;
  readonly type: DestinationType;
  readonly limits: DestinationLimits;
  /**
   * Returns whether this destination takes events of a metric. Informational metrics differ
   * (docs/reference/events.md#metrics).
   */
  accepts(metric: MetricDefinition): boolean;
  /** Makes or finds what events need at the billing system: metrics, plan, meters. Idempotent. */
  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome>;
  /** Sends one batch. `outcomes[i]` belongs to `events[i]`. Never throws for remote faults. */
  send(events: readonly UsageEvent[], signal: AbortSignal): Promise<readonly DeliveryOutcome[]>;
  /**
   * Returns which of these events the billing system has. The feeder calls it for events in flight
   * with an unknown outcome that are older than the billing system remembers ids. Absent when
   * `limits.idMemoryMs` is undefined.
   *
   * `sameBucket` has every event of the ledger in the buckets of these events, in the ledger's
   * order and including them. A bucket is a tenant, a metric and the minute of the window's start,
   * since some billing systems report only sums of minutes. `sameBucket` is absent when the ledger
   * is unreadable or may lack some of them: a sum then proves nothing.
   */
  verify?(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome>;
  /** Closes pooled connections. */
  close(): Promise<void>;

  // Capabilities beside taking usage; each is absent where the billing system lacks it.

  /** Has customers with a subscription or contract each, or is informed of tenants. */
  readonly customers?: Customers;
  /** Has plans that a customer may change. */
  readonly plans?: Plans;
  /** Reports how much usage it has recorded. */
  readonly sums?: Sums;
  /** Makes invoices and lists them. */
  readonly invoices?: Invoices;
  /** Bills usage that arrives after the invoice of its time is final. */
  readonly late?: LateBiller;
  /** Has prices, which the operator only reads. */
  readonly prices?: Prices;
  /** Reports customers in trouble. */
  readonly alerts?: Alerts;
  /** Receives thresholds of budgets. */
  readonly notices?: {
    /** Reports a threshold that a tenant reached. */
    notify(notice: BudgetNotice, signal: AbortSignal): Promise<StepOutcome>;
  };
}

export interface Customers {
  /**
   * Creates or finds the customer and its subscription or contract. Idempotent.
   *
   * If a change of plan would end the object that bills the tenant now, it changes nothing and
   * returns `drain`. The delivery engine then calls {@link Plans.change} once all usage of the old
   * plan is delivered.
   */
  provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome>;
  /** Ends the tenant's subscription, after the tenant's last event is delivered. Idempotent. */
  offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome>;
}

export interface Plans {
  /**
   * Makes the change for which `provision` returned `drain`. The caller has delivered all known
   * usage of windows that start before `before`, and has verified it where the billing system
   * reports sums.
   *
   * Idempotent: after a lost answer the engine calls it again. If the wanted plan is already in
   * force, it returns `changed` with the same `from`.
   */
  change(tenant: Tenant, before: number, signal: AbortSignal): Promise<ChangeOutcome>;
  /**
   * Returns when a change costs no part of a period, for `planChange: period-end`: the end of the
   * billing period at `now`, or the next such moment after `now`.
   */
  periodEnd(tenant: Tenant, now: number, signal: AbortSignal): Promise<PeriodEndOutcome>;
  /**
   * Returns until when changes must wait because the billing system makes invoices, milliseconds
   * since the epoch. Undefined if a change may happen now.
   */
  quietUntil?(now: number): number | undefined;
}

export interface Sums {
  /** Returns what the billing system recorded, for reconciliation. */
  total(query: RecordedTotalQuery, signal: AbortSignal): Promise<RecordedTotalOutcome>;
}

export interface Alerts {
  /**
   * Returns the customers in trouble now, and the state of the subjects in `requested`, as their
   * alerts would report them. It replaces alerts that never arrived. `requested` has subjects that
   * an earlier alert reported in trouble; the answer leaves out unknown ones.
   */
  current(requested: readonly string[], signal: AbortSignal): Promise<CurrentAlertsOutcome>;
  /** Returns the tenants that a customer stands for, as the billing system records it. */
  tenantsOf?(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer>;
  /** Returns the public key that verifies its alerts, as it publishes the key now. */
  publicKey?(signal: AbortSignal): Promise<PublicKeyOutcome>;
  /** Usage that it accepted and found wrong afterwards, newest first (condition `LateRefusals`). */
  lateRefusals?(): readonly LateRefusal[];
}

/** The dependencies of every destination beside its own settings. */
export interface DestinationContext {
  /** The only way to the network. */
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface DestinationLimits {
  /** Events per `send`. */
  readonly batchEvents: number;
  /** Bytes of a call's body, where the other side limits them. */
  readonly batchBytes?: ByteLimit;
  /** Events a second that it takes at most, where known. */
  readonly eventsPerSecond?: number;
  /** Accepts negative quantities, which corrections have. */
  readonly negativeQuantities?: true;
  /** The other side refuses older events, and they become dead letters. */
  readonly maxAgeMs?: number;
  /** How long the other side remembers event ids; undefined: for ever. */
  readonly idMemoryMs?: number;
  /**
   * How long receivers must remember event ids at least, where the documentation requires it and
   * nobody can check. Events that may have arrived longer ago are sent only by force.
   */
  readonly leastIdMemoryMs?: number;
}

export interface ByteLimit {
  readonly most: number;
  /** Returns the bytes that an event takes up in a call's body. */
  sizeOf(event: UsageEvent): number;
}

/**
 * The outcome of one event (docs/explanation/delivery.md#what-becomes-of-an-event):
 * - `delivered`: the other side has it (a duplicate answer counts).
 * - `retry`: not now; the feeder sends the batch again after `afterMs` or its own backoff.
 * - `provision`: the billing system does not know its tenant; provision, then retry.
 * - `blocked`: a person must act (wrong key, endpoint gone); the feeder sends nothing until the
 *   configuration changes or the probe interval passes.
 * - `split`: the batch is refused without naming the event; the feeder bisects.
 * - `rejected`: the other side will never accept this event; it becomes a dead letter.
 */
export type DeliveryOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'provision'; readonly reason: string }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string }
  | { readonly kind: 'rejected'; readonly reason: string };

/** The outcome of a bootstrap or offboarding step, and of most provisioning. */
export type StepOutcome = { readonly kind: 'done' } | FailedStep;

/** The outcome of provisioning a tenant. */
export type ProvisionOutcome = StepOutcome | DrainFirst;

/**
 * Nothing changed: the plan that bills the tenant now must get its usage first
 * (docs/explanation/delivery.md#changes-of-plan).
 */
export interface DrainFirst {
  readonly kind: 'drain';
  readonly reason: string;
  /** Usage of windows that start earlier belongs to the current plan; ms since the epoch. */
  readonly before: number;
  /** The plan or rate card that bills now, and the wanted one. */
  readonly current: string;
  readonly wanted: string;
}

/** The outcome of a change of plan. Times are milliseconds since the epoch. */
export type ChangeOutcome =
  | {
      readonly kind: 'changed';
      /**
       * The moment from which the new plan bills. Usage of the new plan whose window starts earlier
       * is sent as of this moment, since no plan would bill it otherwise.
       */
      readonly from: number;
      /**
       * Until when the old plan still bills late usage from before `from`. Absent: it does not, and
       * such usage is sent as of `from`.
       */
      readonly lateUntil?: number;
    }
  | FailedStep;

export type PeriodEndOutcome = { readonly kind: 'period-end'; readonly at: number } | FailedStep;

/** An event in the same bucket as the events to verify. */
export interface BucketEvent {
  readonly event: UsageEvent;
  /** True if the billing system acknowledged it. */
  readonly delivered: boolean;
}

export type VerifyOutcome =
  | {
      readonly kind: 'verified';
      readonly known: ReadonlySet<string>;
      /** Events whose delivery cannot be determined, by id, with the reason. Never sent again. */
      readonly uncertain?: ReadonlyMap<string, string>;
    }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number };

export type CustomerAnswer =
  /** `certain`: the operator itself wrote the tenants there. */
  | { readonly kind: 'tenants'; readonly tenants: readonly string[]; readonly certain: boolean }
  /** No customer has that id, or none that the operator made. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'failed'; readonly reason: string };

export type CurrentAlertsOutcome =
  /** Alerts without `at` have the moment before the request as their time. */
  | { readonly kind: 'alerts'; readonly alerts: readonly Alert[] }
  /** The state is unavailable, for example for lack of a permission. The operator retries later. */
  | { readonly kind: 'failed'; readonly reason: string };

export type PublicKeyOutcome =
  /** PEM */
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'failed'; readonly reason: string };

/** The keys of several destinations, PEM. */
export type PublicKeysOutcome =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'failed'; readonly reason: string };

/** The state of a destination's customers, as it reported it. */
export interface CurrentAlerts {
  readonly destination: string;
  readonly outcome: CurrentAlertsOutcome;
}

/** Requests current alerts of every destination of the given types, with the subjects by type. */
export type QueryCurrentAlerts = (
  requested: ReadonlyMap<DestinationType, readonly string[]>,
  signal: AbortSignal,
) => Promise<readonly CurrentAlerts[]>;

/** Usage that the billing system accepted and does not bill. */
export interface LateRefusal extends UnbilledUsage {
  /** When the destination found it, milliseconds since the epoch. */
  readonly at: number;
}

export interface RecordedTotalQuery {
  readonly tenant: Tenant;
  readonly metric: string;
  /** Full UTC days, milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

export type RecordedTotalOutcome =
  | { readonly kind: 'total'; readonly quantity: Decimal }
  | { readonly kind: 'unsupported'; readonly reason: string }
  | { readonly kind: 'retry'; readonly reason: string };
