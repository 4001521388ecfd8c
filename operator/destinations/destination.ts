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
import type { InvoicesOutcome, InvoicesQuery } from './invoices.ts';
import type { ComparePrices } from './prices.ts';

/**
 * What a billing system must be able to do for the delivery engine. A destination knows
 * nothing of Kubernetes or the ledger: it is handed events and tenants, and answers with outcomes.
 * It never retries or keeps a cursor, the feeder does; it sleeps only to stay within a rate limit.
 */
export interface Destination {
  /** The spelling that the user chose in ADAPTERS, or the name of the custom resource. */
  readonly name: string;
  readonly type: DestinationType;
  readonly limits: DestinationLimits;
  /** Bytes that an event takes up in a call's body; absent where `limits.batchBytes` is. */
  encodedBytes?(event: UsageEvent): number;
  /**
   * Whether this destination wants events of a metric at all; informational ones differ
   * (docs/events.md#metrics).
   */
  accepts(metric: MetricDefinition): boolean;
  /** Creates or finds what the billing system needs before any event (metrics, plan, meters). Idempotent. */
  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome>;
  /**
   * Creates or finds the customer and its subscription or contract. Idempotent. Where that would end what
   * bills the tenant now, for a change of plan, it changes nothing and answers `drain`: the delivery engine
   * calls {@link Destination.change} once everything that belongs to the old one is there.
   */
  provision(tenant: Tenant, signal: AbortSignal): Promise<ProvisionOutcome>;
  /**
   * Makes the change for which provisioning answered `drain`. All usage that the engine had of windows that
   * start before `before` is delivered, and verified where the billing system reports sums. Idempotent: it is
   * called again when its answer was lost, and answers `changed` with the same `from` when what is wanted is
   * in force already, also when it always was. Absent where provisioning never answers `drain`.
   */
  change?(tenant: Tenant, before: number, signal: AbortSignal): Promise<ChangeOutcome>;
  /**
   * The end of the tenant's billing period that runs at `now`, or the next moment after `now` at which a
   * change costs no part of a period, for `planChange: period-end`. Absent where there are no periods: then a
   * change is made at once.
   */
  periodEnd?(tenant: Tenant, now: number, signal: AbortSignal): Promise<PeriodEndOutcome>;
  /**
   * Until when no change may be made because the billing system is making invoices, milliseconds since the
   * epoch; undefined: now is fine.
   */
  quietUntil?(now: number): number | undefined;
  /** Sends one batch. `outcomes[i]` belongs to `events[i]`. Never throws for anything the other side did. */
  send(events: readonly UsageEvent[], signal: AbortSignal): Promise<readonly DeliveryOutcome[]>;
  /** Tells of a threshold that a tenant has reached. Absent where the billing system is told of usage only. */
  notify?(notice: BudgetNotice, signal: AbortSignal): Promise<StepOutcome>;
  /** Ends the tenant's subscription after its last event was delivered. Idempotent. */
  offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome>;
  /**
   * Which of these events the billing system already has, for events in flight whose outcome is
   * unknown and that are older than it remembers ids. Absent when `limits.idMemoryMs` is undefined.
   * `sameBucket` has every event of the ledger that falls into the buckets of these events, themselves
   * included, in the ledger's order. A bucket is a tenant, a metric and the minute of the window's start:
   * billing systems that report sums only sum by it. Absent when the ledger cannot be read, or may not have all of them any more:
   * a sum tells nothing then.
   */
  verify?(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome>;
  /** What the billing system recorded, for reconciliation. Absent when it cannot tell. */
  totals?(query: TotalsQuery, signal: AbortSignal): Promise<TotalsOutcome>;
  /**
   * A tenant's final invoices, which are held against what was delivered
   * (docs/delivery.md#invoices). Absent when it makes none, or cannot tell.
   */
  invoices?(query: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome>;
  /**
   * For people, where it tells of invoices: what the billing system does with usage that is sent when the
   * invoice of its period is final.
   */
  readonly closedPeriods?: string;
  /** Bills usage that comes after the invoice of its time is final. Absent where it cannot. */
  readonly late?: LateBiller;
  /** Which tenants a customer of a billing system is, as that has it itself; for alerts about the customer. */
  tenantsOf?(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer>;
  /**
   * Which customers are in trouble over there now, and how the subjects stand that it was asked about, each
   * as an alert would say it: what alerts that never came would have told. `asked` are subjects of which an
   * earlier alert said that they are in trouble; those that it knows nothing of are left out of the answer.
   */
  standing?(asked: readonly string[], signal: AbortSignal): Promise<StandingOutcome>;
  /** The public key with which its alerts are verified, as it publishes it now. */
  publicKey?(signal: AbortSignal): Promise<PublicKeyOutcome>;
  /**
   * Kinds of usage that came and that nobody has priced over there, as far as it can tell (condition
   * `UnpricedUsage`).
   */
  unpriced?(): readonly UnpricedUsage[];
  /**
   * What the billing system found wrong with usage after it had taken it, the newest first (condition
   * `LateRefusals`).
   */
  lateRefusals?(): readonly LateRefusal[];
  /** Holds a price book against the prices that it has; it is only read. Absent where it has none. */
  readonly comparePrices?: ComparePrices;
  /** Events a second that the billing system takes at the most, as far as is known. */
  eventsPerSecond?(): number | undefined;
  /** Closes pooled connections. */
  close(): Promise<void>;
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
  readonly batchBytes?: number;
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

/**
 * What became of one event (docs/delivery.md#what-becomes-of-an-event):
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

/** Nothing was changed: what bills the tenant must get its usage first (docs/delivery.md#changes-of-plan). */
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

export type StandingOutcome =
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
export interface Standing {
  readonly destination: string;
  readonly outcome: StandingOutcome;
}

/** Asks every destination of the given types, each about the subjects of its type. */
export type AskStanding = (
  asked: ReadonlyMap<DestinationType, readonly string[]>,
  signal: AbortSignal,
) => Promise<readonly Standing[]>;

/** A kind of usage without a price at a billing system. */
export interface UnpricedUsage {
  readonly metric: string;
  readonly sku?: string;
  /** The plan or rate card that has no price for it. */
  readonly plan: string;
  /** The quantity that came so far and is on no invoice, decimal text, where it is known. */
  readonly atStake?: string;
  /** Until when a price that is attached still bills that quantity, milliseconds since the epoch. */
  readonly savedUntil?: number;
}

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
