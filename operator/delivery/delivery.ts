import type { DestinationSettings } from '../settings/settings.ts';
import type {
  QueryCurrentAlerts,
  CustomerAnswer,
  Destination,
  LateRefusal,
  PublicKeysOutcome,
} from '../destinations/destination.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { LedgerFailure, RecordChange, WriteOutcome } from '../ledger/ledger.ts';
import { isOwnCursor } from '../ledger/own-cursors.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { errorText } from '../model/error-text.ts';
import type { Tenant } from '../model/tenant.ts';
import { queryPublicKeys, queryStatus, queryTenants } from './asking.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import type { DeliveryOptions } from './delivery-options.ts';
import type { QueuedEvent } from './delivery-result.ts';
import { DestinationDirectory } from './destination-directory.ts';
import type { DestinationStatus } from './destination-status.ts';
import type { Feeder } from './feeder/feeder.ts';
import { MAX_SHOWN } from './feeder/feeder-status.ts';
import { reservePosition } from './feeder/start-position.ts';
import { type NoticeOutcome, Notifying } from './notifying.ts';
import type { CorrectionPrediction } from './operations/correction-prediction.ts';
import type {
  DeadLetterPage,
  DiscardOutcome,
  MoveOutcome,
  ReplayOutcome,
} from './operations/outcomes.ts';
import {
  type ComparedDestination,
  comparePriceBooks,
  type PriceComparison,
  type PriceQuestion,
} from './operations/price-comparison.ts';
import type { ReconcileOutcome, ReconcileQuery } from './operations/reconcile.ts';
import { ReportedRefusals } from './reported-refusals.ts';
import { RunningFeeders } from './running-feeders.ts';

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
 * one never delays another (docs/explanation/delivery.md#what-becomes-of-an-event). What is public is bound to it, so that views
 * can take the operations over one by one.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #feeders: RunningFeeders;
  readonly #directory: DestinationDirectory;
  readonly #notifying: Notifying;
  readonly #reported: ReportedRefusals;
  #wanted: readonly DestinationSettings[] = [];
  #running = false;
  #changes: Promise<void> = Promise.resolve();

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#notifying = new Notifying(options);
    this.#reported = new ReportedRefusals(options);
    const metrics = createDeliveryMetrics(options.registry, () => {
      const lags = this.statuses().map(
        ({ name, lagEvents: events, lagSeconds: seconds }) => [name, { events, seconds }] as const,
      );
      return new Map(lags);
    });
    this.#feeders = new RunningFeeders(options, metrics);
    this.#directory = new DestinationDirectory({
      ...options,
      feeders: this.#feeders,
      wanted: () => this.#wanted,
    });
  }

  /**
   * The destinations that there should be from now on: new ones start, changed ones restart, the
   * cursors of those that are gone are retired. The first call must name all there are, custom
   * resources included. Nothing is sent before {@link Delivery.run}.
   */
  readonly apply = (destinations: readonly DestinationSettings[]): Promise<void> => {
    this.#wanted = destinations;
    return this.#inSlice(() => this.#applyWanted());
  };

  /**
   * Commits the cursors of destinations that cannot be fed and have none: from then on the ledger keeps what they are to get.
   * The running engine does it with every change as well.
   */
  readonly reserve = async (): Promise<WriteOutcome> =>
    (await this.#inSlice(() => this.#reserve())) ??
    ledgerFailure('retryable', 'delivery: cursors cannot be committed: see the log');

  /** Delivers until the signal is aborted, then ends in good order. */
  readonly run = async (signal: AbortSignal): Promise<void> => {
    if (signal.aborted) return;
    this.#running = true;
    await this.#inSlice(() => this.#applyWanted());
    await this.#inSlice(() => this.#reported.load());
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await this.close();
  };

  /** Ends all feeders after their batch under way, within ten seconds. */
  readonly close = (): Promise<void> =>
    this.#inSlice(async () => {
      this.#running = false;
      await this.#feeders.stopAll();
    });

  readonly status = (name: string): DestinationStatus | undefined =>
    this.statuses().find((status) => status.name === name);

  /** Every destination that is fed, and every custom resource that cannot be, with the reason. */
  readonly statuses = (): readonly DestinationStatus[] =>
    this.#directory.statuses().map((status) => {
      const all = [...status.lateRefusals, ...this.#reported.of(status.type)];
      const newest = all.toSorted((a, b) => b.at - a.at).slice(0, MAX_SHOWN);
      return { ...status, lateRefusals: newest };
    });

  /** Durably asks every destination to offboard a tenant once its last event is through. */
  readonly offboard = async (tenant: Tenant): Promise<WriteOutcome> => {
    // Whoever is not told now is not told again.
    const told = this.#directory.all().map((feeder) => feeder.offboard(tenant));
    const outcomes = await Promise.all(told);
    return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
  };

  /**
   * Tells destinations of a threshold, those that are `told` already excepted. Nobody has it before the destinations
   * are known, and one that is suspended waits.
   */
  readonly notify = async (
    notice: BudgetNotice,
    told: ReadonlySet<string>,
  ): Promise<NoticeOutcome> => {
    if (!this.#running) return { notified: [], waiting: ['destinations have not started'] };
    const isSuspended = (name: string): boolean =>
      this.#wanted.find((one) => one.name === name)?.suspend === true;
    const listening = this.#askable().filter(({ notices }) => notices !== undefined);
    const asleep = listening.filter(({ name }) => isSuspended(name) && !told.has(name));
    const awake = listening.filter((destination) => !asleep.includes(destination));
    const outcome = await this.#notifying.notify(awake, notice, told);
    const waiting = asleep.map(({ name }) => `${name}: it is suspended`);
    return { ...outcome, waiting: [...outcome.waiting, ...waiting] };
  };

  /** Undefined when there is no such destination. */
  readonly deadLetters = async (
    name: string,
    after: number,
    limit: number,
  ): Promise<DeadLetterPage | undefined> =>
    this.#directory.find(name)?.operations.deadLetters(after, limit);

  readonly replay = (
    name: string,
    ids: readonly string[] | undefined,
    force?: boolean,
  ): Promise<ReplayOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.replay(ids, force));

  readonly discard = (
    name: string,
    ids: readonly string[] | undefined,
  ): Promise<DiscardOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.discard(ids));

  readonly moveCursor = (
    name: string,
    sequence: number,
    force?: boolean,
  ): Promise<MoveOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.moveCursor(sequence, force));

  /** The ledger's sums against what the destination acknowledged, and against what it says it has. */
  readonly reconcile = (
    name: string,
    query: ReconcileQuery,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome | UnknownDestination> =>
    this.#with(name, (feeder) => feeder.reconcile(query, signal));

  /** Holds price books against the prices that a destination has; nothing is changed there. */
  readonly comparePrices = async (
    name: string,
    question: PriceQuestion,
    signal: AbortSignal,
  ): Promise<PriceComparison | UnknownDestination | UnusableDestination> => {
    const compared = this.#compared(name);
    if ('kind' in compared) return compared;
    return comparePriceBooks(compared, question, signal);
  };

  /**
   * Adds up what a destination was given and holds the invoices of some tenants against it; the status
   * tells what came of it. Nothing where it makes no invoices.
   */
  readonly checkInvoices = async (
    name: string,
    tenants: number,
    signal: AbortSignal,
  ): Promise<LedgerFailure | undefined> =>
    this.#feeders.get(name)?.feeder.invoices?.poll(tenants, signal);

  /** What would become of a correction of an event there; undefined when there is no such destination. */
  readonly predictCorrection = async (
    name: string,
    stored: QueuedEvent,
  ): Promise<CorrectionPrediction | undefined> =>
    this.#directory.find(name)?.correctionOutlook(stored);

  /** Which tenants a customer of a billing system is, as any destination is told by it. */
  readonly tenantsOf = (
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer> => queryTenants(this.#askable(), system, customer, signal);

  /** The public keys with which a billing system signs, of all its destinations; asked anew each time. */
  readonly publicKeysOf = (
    system: DestinationType,
    signal: AbortSignal,
  ): Promise<PublicKeysOutcome> => queryPublicKeys(this.#askable(), system, signal);

  /**
   * Durably takes in a billing system's report of usage that it took and does not bill, with `more` in the same write.
   * The destinations of its type show it for seven days (condition `LateRefusals`).
   */
  readonly report = (
    system: DestinationType,
    refusals: readonly LateRefusal[],
    more: readonly RecordChange[],
  ): Promise<WriteOutcome> => this.#reported.add(system, refusals, more);

  /** How customers stand, as every destination of the given types says it. */
  readonly currentAlerts: QueryCurrentAlerts = (...asked) => queryStatus(this.#askable(), ...asked);

  #compared(name: string): ComparedDestination | UnknownDestination | UnusableDestination {
    const found = this.#directory.find(name);
    if (found === undefined) return { kind: 'unknown-destination' };
    const running = this.#feeders.get(name);
    const destination = running?.destination;
    if (destination === undefined) {
      return { kind: 'unusable', reason: found.status().lastError ?? 'it has not started' };
    }
    const filter = running?.feeder.settings.metrics;
    return { destination, filter, catalog: this.#options.catalog().metrics };
  }

  /** One change at a time; one that throws gives undefined and does not stop those after it. */
  #inSlice<T>(action: () => Promise<T>): Promise<T | undefined> {
    const done = this.#changes.then(action).catch((error: unknown) => {
      this.#options.logger.error(`[delivery] ${errorText(error)}`);
      return undefined;
    });
    this.#changes = done.then(() => undefined);
    return done;
  }

  async #applyWanted(): Promise<void> {
    if (!this.#running) return;
    const byName = new Map(this.#wanted.map((settings) => [settings.name, settings]));
    await this.#feeders.settle(byName);
    if (this.#options.othersFeed !== true) await this.#retireOthers();
    await this.#reserve();
  }

  /** Also for a destination of the environment that cannot be used: its feeder finds no place. */
  async #reserve(): Promise<WriteOutcome> {
    const { ledger, clock, logger } = this.#options;
    if (!this.#running) return { kind: 'written' };
    const unusable = this.#feeders
      .list()
      .flatMap(({ destination, feeder }) => (destination === undefined ? feeder.settings : []));
    const failures: LedgerFailure[] = [];
    for (const one of [...unusable, ...this.#directory.unfed()]) {
      const outcome = await reservePosition(ledger, one, clock.now());
      if (outcome.kind === 'written') continue;
      logger.warn(`[${one.name}] ${outcome.message}`);
      failures.push(outcome);
    }
    return failures[0] ?? { kind: 'written' };
  }

  /** The destinations that can be asked for something. */
  #askable(): readonly Destination[] {
    return this.#feeders.list().flatMap(({ destination }) => destination ?? []);
  }

  async #retireOthers(): Promise<void> {
    const { ledger, clock, logger } = this.#options;
    const existing = new Set((this.#options.existing?.() ?? []).map(({ name }) => name));
    for (const { destination, retiredAt } of ledger.cursors()) {
      if (this.#feeders.has(destination) || existing.has(destination)) continue;
      if (retiredAt !== undefined || isOwnCursor(destination)) continue;
      const outcome = await ledger.retireCursor(destination, clock.now());
      if (outcome.kind === 'failed') logger.warn(`[${destination}] ${outcome.message}`);
      else logger.info(`[${destination}] destination is gone, its cursor is retired`);
    }
  }

  async #with<T>(
    name: string,
    action: (feeder: Pick<Feeder, 'operations' | 'reconcile'>) => Promise<T>,
  ): Promise<T | UnknownDestination> {
    const feeder = this.#directory.find(name);
    return feeder === undefined ? { kind: 'unknown-destination' } : action(feeder);
  }
}
