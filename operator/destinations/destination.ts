import type { BudgetNotice } from '../model/budget-notice.ts';
import type { MetricDefinition } from '../model/catalog.ts';
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
 * What the delivery engine needs of a billing system: `send`, and what sending needs. Everything else is a
 * capability: an object that is present where the billing system can do it, such as `destination.plans?.change(…)`.
 *
 * A destination knows nothing of Kubernetes or the ledger: it gets events and tenants, and answers with outcomes.
 * It never retries or keeps a cursor, the feeder does; it sleeps only to stay within a rate limit.
 */
export interface Destination extends Capabilities {
  /** The spelling that the user chose in ADAPTERS, or the name of the custom resource. */
  readonly name: string;
  readonly type: DestinationType;
  readonly limits: DestinationLimits;
  /**
   * Whether this destination wants events of a metric at all; informational ones differ
   * (docs/reference/events.md#metrics).
   */
  accepts(metric: MetricDefinition): boolean;
  /** Creates or finds what the billing system needs before any event (metrics, plan, meters). Idempotent. */
  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome>;
  /** Sends one batch. `outcomes[i]` belongs to `events[i]`. Never throws for anything the other side did. */
  send(events: readonly UsageEvent[], signal: AbortSignal): Promise<readonly DeliveryOutcome[]>;
  /**
   * Returns which of these events the billing system already has, for events in flight whose outcome is
   * unknown and that are older than it remembers ids. Absent when `limits.idMemoryMs` is undefined.
   * `sameBucket` has every event of the ledger that falls into the buckets of these events, themselves
   * included, in the ledger's order. A bucket is a tenant, a metric and the minute of the window's start:
   * billing systems that report sums only sum by it. Absent when the ledger cannot be read, or may not have
   * all of them any more: a sum proves nothing then.
   */
  verify?(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome>;
  /** Closes pooled connections. */
  close(): Promise<void>;
}

/** What billing systems can do beside taking usage; each is absent where this one cannot. */
export interface Capabilities {
  /** Has customers, with a subscription or contract each, or is informed of tenants. */
  readonly customers?: Customers;
  /** Has plans that a customer may change. */
  readonly plans?: Plans;
  /** Can be asked how much usage it has. */
  readonly sums?: Sums;
  /** Makes invoices, and can be asked for them. */
  readonly invoices?: Invoices;
  /** Bills usage that comes after the invoice of its time is final. */
  readonly late?: LateBiller;
  /** Has prices, which are only read. */
  readonly prices?: Prices;
  /** Knows which customers are in trouble. */
  readonly alerts?: Alerts;
  /** Is informed of thresholds of budgets. */
  readonly notices?: Notices;
}

export interface Customers {
  /**
   * Creates or finds the customer and its subscription or contract. Idempotent. Where that would end what
   * bills the tenant now, for a change of plan, it changes nothing and answers `drain`: the delivery engine
   * calls {@link Plans.change} once everything that belongs to the old one is there.
   */
  provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome>;
  /** Ends the tenant's subscription after its last event was delivered. Idempotent. */
  offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome>;
}

export interface Plans {
  /**
   * Makes the change for which provisioning answered `drain`. All usage that the engine had of windows that
   * start before `before` is delivered, and verified where the billing system reports sums. Idempotent: it is
   * called again when its answer was lost, and answers `changed` with the same `from` when what is wanted is
   * in force already, also when it always was.
   */
  change(tenant: Tenant, before: number, signal: AbortSignal): Promise<ChangeOutcome>;
  /**
   * Returns the end of the tenant's billing period that runs at `now`, or the next moment after `now` at which
   * a change costs no part of a period, for `planChange: period-end`.
   */
  periodEnd(tenant: Tenant, now: number, signal: AbortSignal): Promise<PeriodEndOutcome>;
  /**
   * Until when no change may be made because the billing system is making invoices, milliseconds since the
   * epoch; undefined: now is fine.
   */
  quietUntil?(now: number): number | undefined;
}

export interface Sums {
  /** Returns what the billing system recorded, for reconciliation. */
  total(query: TotalsQuery, signal: AbortSignal): Promise<TotalsOutcome>;
}

export interface Alerts {
  /**
   * Returns which customers are in trouble over there now, and the state of the subjects in `asked`, each as an
   * alert would report it, for alerts that never came. `asked` are subjects of which an earlier alert said that
   * they are in trouble; those that it knows nothing of are left out of the answer.
   */
  current(requested: readonly string[], signal: AbortSignal): Promise<CurrentAlertsOutcome>;
  /** Returns which tenants a customer of a billing system is, as that has it itself. */
  tenantsOf?(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer>;
  /** Returns the public key with which its alerts are verified, as it publishes it now. */
  publicKey?(signal: AbortSignal): Promise<PublicKeyOutcome>;
  /** What it found wrong with usage after it had taken it, the newest first (condition `LateRefusals`). */
  lateRefusals?(): readonly LateRefusal[];
}

export interface Notices {
  /** Reports a threshold that a tenant has reached. */
  notify(notice: BudgetNotice, signal: AbortSignal): Promise<StepOutcome>;
}

/** What every destination is built with besides its own settings. */
export interface DestinationContext {
  /** The only way to the network. */
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface DestinationLimits {
  /** Events per `send`. */
  readonly batchEvents: number;
  /** Bytes of a call's body, where the other side bounds them. */
  readonly batchBytes?: ByteLimit;
  /** Events a second that it takes at the most, as far as is known. */
  readonly eventsPerSecond?: number | undefined;
  /** Takes back usage by negative quantities, which corrections have. */
  readonly negativeQuantities?: true;
  /** Older events are refused by the other side and become dead letters. */
  readonly maxAgeMs?: number;
  /** How long the other side remembers event ids; undefined means for ever. */
  readonly idMemoryMs?: number;
  /**
   * How long it remembers them at the least, where it is asked to without saying for how long: what it may have taken longer
   * ago is sent by force only.
   */
  readonly leastIdMemoryMs?: number;
}

export interface ByteLimit {
  readonly most: number;
  /** Bytes that an event takes up in a call's body. */
  sizeOf(event: UsageEvent): number;
}

/**
 * What became of one event (docs/explanation/delivery.md#what-becomes-of-an-event):
 * - `delivered`: the other side has it (a duplicate answer counts).
 * - `retry`: not now; the whole batch is sent again after `afterMs` or the feeder's own backoff.
 * - `provision`: its tenant is unknown over there; provision, then retry.
 * - `hold`: an operator must act (wrong key, endpoint gone); nothing is sent until the configuration changes or the probe interval passes.
 * - `split`: the batch as a whole is refused without saying which event; the feeder bisects.
 * - `rejected`: this event will never be accepted; it becomes a dead letter.
 */
export type DeliveryOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'provision'; readonly reason: string }
  | { readonly kind: 'hold'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string }
  | { readonly kind: 'rejected'; readonly reason: string };

/** What became of a bootstrap or offboarding step, and of most provisioning. */
export type StepOutcome = { readonly kind: 'done' } | FailedStep;

/** What became of provisioning a tenant. */
export type ProvisionOutcome = StepOutcome | DrainFirst;

/** Nothing was changed: what bills the tenant must get its usage first (docs/explanation/delivery.md#changes-of-plan). */
export interface DrainFirst {
  readonly kind: 'drain';
  readonly reason: string;
  /** Usage whose window starts earlier belongs to what bills now, milliseconds since the epoch. */
  readonly before: number;
  /** The plan or rate card that bills now, and the one that is wanted. */
  readonly current: string;
  readonly wanted: string;
}

/** What became of a change of plan. Times are milliseconds since the epoch. */
export type ChangeOutcome =
  | {
      readonly kind: 'changed';
      /**
       * The moment from which the new one bills. Usage of the new side whose window starts earlier is sent as
       * of this moment, since nothing would bill it otherwise.
       */
      readonly from: number;
      /**
       * Until when usage from before `from` that arrives late is still billed by the old one; absent: it is
       * not, and it is sent as of `from`.
       */
      readonly lateUntil?: number;
    }
  | FailedStep;

export type PeriodEndOutcome = { readonly kind: 'period-end'; readonly at: number } | FailedStep;

/** An event of the same bucket as those that are verified. */
export interface BucketEvent {
  readonly event: UsageEvent;
  /** The billing system has acknowledged it. */
  readonly delivered: boolean;
}

export type VerifyOutcome =
  | {
      readonly kind: 'verified';
      readonly known: ReadonlySet<string>;
      /** Why nobody can tell, by id: these are not sent again. */
      readonly uncertain?: ReadonlyMap<string, string>;
    }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number };

export type CustomerAnswer =
  /** `certain`: the operator itself wrote them there. */
  | { readonly kind: 'tenants'; readonly tenants: readonly string[]; readonly certain: boolean }
  /** No customer of that id, or none that the operator has made. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'failed'; readonly reason: string };

export type CurrentAlertsOutcome =
  /** Alerts without `at` are as of the moment before it was asked. */
  | { readonly kind: 'standing'; readonly alerts: readonly Alert[] }
  /** It cannot be told, such as for want of a permission; it is asked again later all the same. */
  | { readonly kind: 'failed'; readonly reason: string };

export type PublicKeyOutcome =
  /** PEM */
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'failed'; readonly reason: string };

/** The keys, PEM, of several destinations. */
export type PublicKeysOutcome =
  | { readonly kind: 'keys'; readonly keys: readonly string[] }
  | { readonly kind: 'failed'; readonly reason: string };

/** What a destination said of how its customers stand. */
export interface CurrentAlerts {
  readonly destination: string;
  readonly outcome: CurrentAlertsOutcome;
}

/** Asks every destination of the given types, each about the subjects of its type. */
export type QueryCurrentAlerts = (
  requested: ReadonlyMap<DestinationType, readonly string[]>,
  signal: AbortSignal,
) => Promise<readonly CurrentAlerts[]>;

/** Usage that was taken and is not billed after all. */
export interface LateRefusal extends UnbilledUsage {
  /** When it was found, milliseconds since the epoch. */
  readonly at: number;
}

export interface TotalsQuery {
  readonly tenant: Tenant;
  readonly metric: string;
  /** Whole UTC days, milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

export type TotalsOutcome =
  | { readonly kind: 'total'; readonly quantity: string }
  | { readonly kind: 'unsupported'; readonly reason: string }
  | { readonly kind: 'retry'; readonly reason: string };
