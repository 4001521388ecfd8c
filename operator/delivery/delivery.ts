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
import { queryPublicKeys, queryStatus, queryTenants } from './alert-queries.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import type { DeliveryOptions } from './delivery-options.ts';
import type { QueuedEvent } from './delivery-result.ts';
import { DestinationDirectory } from './destination-directory.ts';
import type { DestinationStatus } from './destination-status.ts';
import type { Feeder } from './feeder/feeder.ts';
import { MAX_SHOWN } from './feeder/feeder-status.ts';
import { reservePosition } from './feeder/start-position.ts';
import { type NoticeOutcome, Notifier } from './notifier.ts';
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

/** A destination that has not started, or has unusable settings. The reason contains no secrets. */
export interface UnusableDestination {
  readonly kind: 'unusable';
  readonly reason: string;
}

/**
 * The delivery engine: one feeder for each destination, each with its own cursor. A blocked
 * destination never delays another one (docs/explanation/delivery.md#what-becomes-of-an-event).
 * Public members are bound, so that views can take single operations.
 */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #feeders: RunningFeeders;
  readonly #directory: DestinationDirectory;
  readonly #notifier: Notifier;
  readonly #reported: ReportedRefusals;
  #wanted: readonly DestinationSettings[] = [];
  #running = false;
  #changes: Promise<void> = Promise.resolve();

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#notifier = new Notifier(options);
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
   * Sets the wanted destinations: new ones start, changed ones restart, and cursors of removed ones
   * are retired. The first call must name all destinations, custom resources included. Nothing is
   * sent before {@link Delivery.run}.
   */
  readonly apply = (destinations: readonly DestinationSettings[]): Promise<void> => {
    this.#wanted = destinations;
    return this.#inOrder(() => this.#applyWanted());
  };

  /**
   * Commits cursors for destinations that cannot be fed and have none. From then on the ledger
   * retains their events. The running engine does the same with every change.
   */
  readonly reserve = async (): Promise<WriteOutcome> =>
    (await this.#inOrder(() => this.#reserve())) ??
    ledgerFailure('retryable', 'delivery: cursors cannot be committed: see the log');

  /** Delivers until the signal is aborted, then stops as {@link Delivery.close} does. */
  readonly run = async (signal: AbortSignal): Promise<void> => {
    if (signal.aborted) return;
    this.#running = true;
    await this.#inOrder(() => this.#applyWanted());
    await this.#inOrder(() => this.#reported.load());
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await this.close();
  };

  /** Stops all feeders after their current batch, within ten seconds. */
  readonly close = (): Promise<void> =>
    this.#inOrder(async () => {
      this.#running = false;
      await this.#feeders.stopAll();
    });

  readonly status = (name: string): DestinationStatus | undefined =>
    this.statuses().find((status) => status.name === name);

  /** Returns the status of every destination that is fed, and of every unusable custom resource. */
  readonly statuses = (): readonly DestinationStatus[] =>
    this.#directory.statuses().map((status) => {
      const all = [...status.lateRefusals, ...this.#reported.of(status.type)];
      const newest = all.toSorted((a, b) => b.at - a.at).slice(0, MAX_SHOWN);
      return { ...status, lateRefusals: newest };
    });

  /** Durably requests that every destination offboards a tenant after its last event. */
  readonly offboard = async (tenant: Tenant): Promise<WriteOutcome> => {
    // A destination that does not receive the request now never receives it.
    const requests = this.#directory.all().map((feeder) => feeder.offboard(tenant));
    const outcomes = await Promise.all(requests);
    return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
  };

  /**
   * Notifies destinations of a threshold, except those in `notified`. Before the destinations are
   * known nobody is notified. A suspended destination waits.
   */
  readonly notify = async (
    notice: BudgetNotice,
    notified: ReadonlySet<string>,
  ): Promise<NoticeOutcome> => {
    if (!this.#running) return { notified: [], waiting: ['destinations have not started'] };
    const isSuspended = (name: string): boolean =>
      this.#wanted.find((one) => one.name === name)?.suspend === true;
    const listening = this.#queryable().filter(({ notices }) => notices !== undefined);
    const asleep = listening.filter(({ name }) => isSuspended(name) && !notified.has(name));
    const awake = listening.filter((destination) => !asleep.includes(destination));
    const outcome = await this.#notifier.notify(awake, notice, notified);
    const waiting = asleep.map(({ name }) => `${name}: it is suspended`);
    return { ...outcome, waiting: [...outcome.waiting, ...waiting] };
  };

  /** A page of dead letters after a sequence number; undefined without such a destination. */
  readonly deadLetters = async (
    name: string,
    after: number,
    limit: number,
  ): Promise<DeadLetterPage | undefined> =>
    this.#directory.find(name)?.operations.deadLetters(after, limit);

  /**
   * Sends dead letters again; all of them when `ids` is undefined. Events of closed periods, and
   * events that may be billed twice, need `force`.
   */
  readonly replay = (
    name: string,
    ids: readonly string[] | undefined,
    force?: boolean,
  ): Promise<ReplayOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.replay(ids, force));

  /** Discards dead letters for good; all of them when `ids` is undefined. */
  readonly discard = (
    name: string,
    ids: readonly string[] | undefined,
  ): Promise<DiscardOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.discard(ids));

  /**
   * Moves the cursor to a position. Moving back over usage of closed periods needs `force`.
   * Warnings name horizons beyond which the destination may bill twice.
   */
  readonly moveCursor = (
    name: string,
    sequence: number,
    force?: boolean,
  ): Promise<MoveOutcome | UnknownDestination> =>
    this.#with(name, ({ operations }) => operations.moveCursor(sequence, force));

  /** Compares the ledger's sums with what the destination acknowledged and what it reports. */
  readonly reconcile = (
    name: string,
    query: ReconcileQuery,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome | UnknownDestination> =>
    this.#with(name, (feeder) => feeder.reconcile(query, signal));

  /** Compares price books with a destination's prices. Changes nothing at the destination. */
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
   * Adds up what a destination received and compares the invoices of some tenants with it. The
   * status shows the result. Does nothing at a destination that makes no invoices.
   */
  readonly checkInvoices = async (
    name: string,
    tenants: number,
    signal: AbortSignal,
  ): Promise<LedgerFailure | undefined> => this.#feeders.get(name)?.invoices?.poll(tenants, signal);

  /** Predicts the outcome of a correction at a destination. Undefined without the destination. */
  readonly predictCorrection = async (
    name: string,
    stored: QueuedEvent,
  ): Promise<CorrectionPrediction | undefined> =>
    this.#directory.find(name)?.predictCorrection(stored);

  /** Returns the tenants of a billing system's customer, from the first destination that knows. */
  readonly tenantsOf = (
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer> => queryTenants(this.#queryable(), system, customer, signal);

  /** Fetches the public keys of a billing system's signatures from all destinations of its type. */
  readonly publicKeysOf = (
    system: DestinationType,
    signal: AbortSignal,
  ): Promise<PublicKeysOutcome> => queryPublicKeys(this.#queryable(), system, signal);

  /**
   * Durably stores a billing system's report of usage that it accepted and does not bill. Writes
   * `more` in the same transaction. Destinations of this type show it for seven days (condition
   * `LateRefusals`).
   */
  readonly report = (
    system: DestinationType,
    refusals: readonly LateRefusal[],
    more: readonly RecordChange[],
  ): Promise<WriteOutcome> => this.#reported.add(system, refusals, more);

  /** Returns the current alerts of customers, from every destination of the given types. */
  readonly currentAlerts: QueryCurrentAlerts = (...query) =>
    queryStatus(this.#queryable(), ...query);

  #compared(name: string): ComparedDestination | UnknownDestination | UnusableDestination {
    const found = this.#directory.find(name);
    if (found === undefined) return { kind: 'unknown-destination' };
    const running = this.#feeders.get(name);
    const destination = running?.destination;
    if (destination === undefined) {
      return { kind: 'unusable', reason: found.status().lastError ?? 'it has not started' };
    }
    const filter = running?.settings.metrics;
    return { destination, filter, catalog: this.#options.catalog().metrics };
  }

  /** Runs one change at a time. Returns undefined if it throws; later changes still run. */
  #inOrder<T>(action: () => Promise<T>): Promise<T | undefined> {
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

  /** Commits missing cursors, including those of unusable destinations of the environment. */
  async #reserve(): Promise<WriteOutcome> {
    const { ledger, clock, logger } = this.#options;
    if (!this.#running) return { kind: 'written' };
    const unusable = this.#feeders
      .list()
      .flatMap(({ destination, settings }) => (destination === undefined ? settings : []));
    const failures: LedgerFailure[] = [];
    for (const one of [...unusable, ...this.#directory.unfed()]) {
      const outcome = await reservePosition(ledger, one, clock.now());
      if (outcome.kind === 'written') continue;
      logger.warn(`[${one.name}] ${outcome.message}`);
      failures.push(outcome);
    }
    return failures[0] ?? { kind: 'written' };
  }

  /** The destinations that accept queries and notices. */
  #queryable(): readonly Destination[] {
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
