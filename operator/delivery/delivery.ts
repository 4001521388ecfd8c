import type { Registry } from 'prom-client';
import type { DestinationSettings } from '../config/settings.ts';
import type {
  AskStanding,
  CustomerAnswer,
  LateRefusal,
  PublicKeysOutcome,
} from '../destinations/destination.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import type { Ledger, LedgerFailure, RecordChange, WriteOutcome } from '../ledger/ledger.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import type { Catalog } from '../model/catalog.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { QueuedEvent } from './delivery-result.ts';
import type { DestinationStatus, ExistingDestination } from './destination-status.ts';
import type { TenantSource } from './lanes/tenant-directory.ts';
import type { NoticeOutcome } from './notifying.ts';
import type { CorrectionOutlook } from './operations/correction-outlook.ts';
import type {
  DeadLetterPage,
  DiscardOutcome,
  MoveOutcome,
  ReplayOutcome,
} from './operations/outcomes.ts';
import type { PriceComparison, PriceQuestion } from './operations/price-comparison.ts';
import type { ReconcileQuery, ReconcileOutcome } from './operations/reconcile.ts';

export interface UnknownDestination {
  readonly kind: 'unknown-destination';
}

/** It has not started, or its settings cannot be used; the reason is fit for an answer. */
export interface UnusableDestination {
  readonly kind: 'unusable';
  readonly reason: string;
}

/**
 * The delivery engine: one feeder for each destination, each with its own cursor, so that what blocks
 * one never delays another (docs/delivery.md#what-becomes-of-an-event).
 */
export interface Delivery {
  /**
   * The destinations that there should be from now on: new ones start, changed ones restart, the
   * cursors of those that are gone are retired. The first call must name all there are, custom
   * resources included. Nothing is sent before {@link Delivery.run}.
   */
  apply(destinations: readonly DestinationSettings[]): Promise<void>;
  /**
   * Commits the cursors of destinations that cannot be fed and have none: from then on the ledger keeps what they are to get.
   * The running engine does it with every change as well.
   */
  reserve(): Promise<WriteOutcome>;
  /** Delivers until the signal is aborted, then ends in good order. */
  run(signal: AbortSignal): Promise<void>;
  /** Ends all feeders after their batch under way, within ten seconds. */
  close(): Promise<void>;

  status(name: string): DestinationStatus | undefined;
  /** Every destination that is fed, and every custom resource that cannot be, with the reason. */
  statuses(): readonly DestinationStatus[];
  /** Durably asks every destination to offboard a tenant once its last event is through. */
  offboard(tenant: Tenant): Promise<WriteOutcome>;

  /**
   * Tells destinations of a threshold, those that are `told` already excepted. Nobody has it before the destinations
   * are known, and one that is suspended waits.
   */
  notify(notice: BudgetNotice, told: ReadonlySet<string>): Promise<NoticeOutcome>;

  /** Undefined when there is no such destination. */
  deadLetters(name: string, after: number, limit: number): Promise<DeadLetterPage | undefined>;
  replay(
    name: string,
    ids: readonly string[] | undefined,
    force?: boolean,
  ): Promise<ReplayOutcome | UnknownDestination>;
  discard(
    name: string,
    ids: readonly string[] | undefined,
  ): Promise<DiscardOutcome | UnknownDestination>;
  moveCursor(
    name: string,
    sequence: number,
    force?: boolean,
  ): Promise<MoveOutcome | UnknownDestination>;
  /** Which tenants a customer of a billing system is, as any destination is told by it. */
  tenantsOf(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer>;
  /** The public keys with which a billing system signs, of all its destinations; asked anew each time. */
  publicKeysOf(system: DestinationType, signal: AbortSignal): Promise<PublicKeysOutcome>;
  /**
   * Durably takes in a billing system's report of usage that it took and does not bill, with `more` in the same write.
   * The destinations of its type show it for seven days (condition `LateRefusals`).
   */
  report(
    system: DestinationType,
    refusals: readonly LateRefusal[],
    more: readonly RecordChange[],
  ): Promise<WriteOutcome>;
  /** How customers stand, as every destination of the given types says it. */
  readonly standing: AskStanding;
  /** The ledger's sums against what the destination acknowledged, and against what it says it has. */
  reconcile(
    name: string,
    query: ReconcileQuery,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome | UnknownDestination>;
  /** Holds price books against the prices that a destination has; nothing is changed there. */
  comparePrices(
    name: string,
    question: PriceQuestion,
    signal: AbortSignal,
  ): Promise<PriceComparison | UnknownDestination | UnusableDestination>;
  /**
   * Adds up what a destination was given and holds the invoices of some tenants against it; the status
   * tells what came of it. Nothing where it makes no invoices.
   */
  lookAtInvoices(
    name: string,
    tenants: number,
    signal: AbortSignal,
  ): Promise<LedgerFailure | undefined>;
  /** What would become of a correction of an event there; undefined when there is no such destination. */
  correctionOutlook(name: string, stored: QueuedEvent): Promise<CorrectionOutlook | undefined>;
}

export interface DeliveryOptions {
  readonly ledger: Ledger;
  readonly createDestination: CreateDestination;
  readonly tenants: TenantSource;
  readonly catalog: () => Catalog;
  /**
   * Destinations of custom resources, also of those whose settings cannot be used: they are shown with the
   * reason, and their cursors stay as they are.
   */
  readonly existing?: () => readonly ExistingDestination[];
  /** Cursors of destinations that nobody knows here may be others', and stay as they are; by default they are retired. */
  readonly othersFeed?: boolean;
  /** Whether the ledger takes events, by default true: what late usage was billed as is noted in records alone where it does not. */
  readonly mayAppend?: boolean;
  /** MAX_BACKFILL as it is set now. */
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}
