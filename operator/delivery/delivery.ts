import type { Registry } from 'prom-client';
import type { DestinationSettings } from '../config/settings.ts';
import type {
  AskStanding,
  CustomerAnswer,
  Destination,
  PublicKeysOutcome,
} from '../destinations/destination.ts';
import { type CreateDestination, sameDestination } from '../destinations/registry.ts';
import type { Ledger, LedgerFailure, WriteOutcome } from '../ledger/ledger.ts';
import type { Catalog } from '../model/catalog.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { errorText } from '../model/error-text.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { askPublicKeys, askStanding, askTenants } from './asking.ts';
import { createDeliveryMetrics, type DeliveryMetrics } from './delivery-metrics.ts';
import type { QueuedEvent } from './delivery-result.ts';
import type { DestinationStatus, ExistingDestination } from './destination-status.ts';
import { createFeeder, type Feeder } from './feeder/feeder.ts';
import {
  createInvalidDestinationFeeder,
  createStandIn,
  type StandIn,
} from './feeder/invalid-destination.ts';
import type { TenantSource } from './lanes/tenant-directory.ts';
import type { CorrectionOutlook } from './operations/correction-outlook.ts';
import type {
  DeadLetterPage,
  DiscardOutcome,
  MoveOutcome,
  ReplayOutcome,
} from './operations/outcomes.ts';
import type { ReconcileQuery, ReconcileOutcome } from './operations/reconcile.ts';

export interface UnknownDestination {
  readonly kind: 'unknown-destination';
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
  /** Delivers until the signal is aborted, then ends in good order. */
  run(signal: AbortSignal): Promise<void>;
  /** Ends all feeders after their batch under way, within ten seconds. */
  close(): Promise<void>;

  status(name: string): DestinationStatus | undefined;
  /** Every destination that is fed, and every custom resource that cannot be, with the reason. */
  statuses(): readonly DestinationStatus[];
  /** Durably asks every destination to offboard a tenant once its last event is through. */
  offboard(tenant: Tenant): Promise<WriteOutcome>;

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
  /** How customers stand, as every destination of the given types says it. */
  readonly standing: AskStanding;
  /** The ledger's sums against what the destination acknowledged, and against what it says it has. */
  reconcile(
    name: string,
    query: ReconcileQuery,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome | UnknownDestination>;
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
  /** MAX_BACKFILL as it is set now. */
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}

export function createDelivery(options: DeliveryOptions): Delivery {
  return new DeliveryEngine(options);
}

/** What is public is bound to it, so that views can take the operations over one by one. */
class DeliveryEngine implements Delivery {
  readonly #options: DeliveryOptions;
  readonly #metrics: DeliveryMetrics;
  readonly #feeders = new Map<string, Feeder>();
  readonly #destinations = new Map<string, Destination>();
  #wanted: readonly DestinationSettings[] = [];
  #running = false;
  #changes: Promise<void> = Promise.resolve();

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#metrics = createDeliveryMetrics(options.registry, () => {
      const lags = this.statuses().map(
        ({ name, lagEvents: events, lagSeconds: seconds }) => [name, { events, seconds }] as const,
      );
      return new Map(lags);
    });
  }

  readonly apply: Delivery['apply'] = (destinations) => {
    this.#wanted = destinations;
    return this.#inTurn(() => this.#applyWanted());
  };

  readonly run: Delivery['run'] = async (signal) => {
    if (signal.aborted) return;
    this.#running = true;
    await this.#inTurn(() => this.#applyWanted());
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await this.close();
  };

  readonly close: Delivery['close'] = () =>
    this.#inTurn(async () => {
      this.#running = false;
      await Promise.all([...this.#feeders.values()].map((feeder) => feeder.stop()));
      this.#feeders.clear();
      this.#destinations.clear();
    });

  readonly status: Delivery['status'] = (name) =>
    this.statuses().find((status) => status.name === name);

  readonly statuses: Delivery['statuses'] = () => {
    const existing = this.#options.existing?.() ?? [];
    const problems = new Map(existing.map(({ name, problem }) => [name, problem]));
    const fed = [...this.#feeders].map(([name, feeder]): DestinationStatus => {
      const problem = problems.get(name);
      const status = feeder.status();
      if (problem === undefined) return status;
      return { ...status, ready: false, problem: { ...problem, inForce: true } };
    });
    const others = existing.filter(({ name }) => !this.#feeders.has(name));
    return [...fed, ...others.flatMap((one) => this.#standIn(one)?.status() ?? [])];
  };

  readonly offboard: Delivery['offboard'] = async (tenant) => {
    // Whoever is not told now is not told again: those that have not started remember it, too.
    const waiting = (this.#options.existing?.() ?? [])
      .filter(({ name }) => !this.#feeders.has(name))
      .map((one) => createStandIn(one, one.problem?.message ?? 'not started yet', this.#options));
    const asked = [...this.#feeders.values(), ...waiting];
    const outcomes = await Promise.all(asked.map((feeder) => feeder.offboard(tenant)));
    return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
  };

  readonly deadLetters: Delivery['deadLetters'] = async (name, after, limit) =>
    this.#find(name)?.operations.deadLetters(after, limit);

  readonly replay: Delivery['replay'] = (name, ids, force) =>
    this.#with(name, ({ operations }) => operations.replay(ids, force));

  readonly discard: Delivery['discard'] = (name, ids) =>
    this.#with(name, ({ operations }) => operations.discard(ids));

  readonly moveCursor: Delivery['moveCursor'] = (name, sequence, force) =>
    this.#with(name, ({ operations }) => operations.moveCursor(sequence, force));

  readonly reconcile: Delivery['reconcile'] = (name, query, signal) =>
    this.#with(name, (feeder) => feeder.reconcile(query, signal));

  readonly lookAtInvoices: Delivery['lookAtInvoices'] = async (name, tenants, signal) =>
    this.#feeders.get(name)?.invoices?.look(tenants, signal);

  readonly correctionOutlook: Delivery['correctionOutlook'] = async (name, stored) =>
    this.#find(name)?.correctionOutlook(stored);

  readonly tenantsOf: Delivery['tenantsOf'] = (...asked) =>
    askTenants(this.#destinations.values(), ...asked);

  readonly publicKeysOf: Delivery['publicKeysOf'] = (...asked) =>
    askPublicKeys(this.#destinations.values(), ...asked);

  readonly standing: AskStanding = (...asked) => askStanding(this.#destinations.values(), ...asked);

  /** One change at a time; a failure of one does not stop those after it. */
  #inTurn(action: () => Promise<void>): Promise<void> {
    this.#changes = this.#changes.then(action).catch((error: unknown) => {
      this.#options.logger.error(`[delivery] ${errorText(error)}`);
    });
    return this.#changes;
  }

  async #applyWanted(): Promise<void> {
    if (!this.#running) return;
    const byName = new Map(this.#wanted.map((settings) => [settings.name, settings]));
    const stale = [...this.#feeders].filter(([name, feeder]) => {
      const settings = byName.get(name);
      return settings === undefined || !sameDestination(settings, feeder.settings);
    });
    await Promise.all(stale.map(([, feeder]) => feeder.stop()));
    for (const [name] of stale) {
      this.#feeders.delete(name);
      this.#destinations.delete(name);
      if (!byName.has(name)) this.#metrics.remove(name);
    }
    for (const [name, settings] of byName) {
      const feeder = this.#feeders.get(name);
      if (feeder === undefined) this.#start(settings);
      else feeder.wake();
    }
    await this.#retireOthers();
  }

  #start(settings: DestinationSettings): void {
    const { createDestination, logger } = this.#options;
    const { name } = settings;
    const outcome = createDestination(settings);
    if (outcome.kind === 'invalid') {
      logger.error(`[${name}] cannot be used: ${outcome.reason}`);
      const standIn = createInvalidDestinationFeeder(settings, outcome.reason, this.#options);
      this.#feeders.set(name, standIn);
      return;
    }
    const { destination } = outcome;
    const metrics = this.#metrics;
    const feeder = createFeeder({ ...this.#options, settings, metrics, destination });
    this.#feeders.set(name, feeder);
    this.#destinations.set(name, destination);
    feeder.start();
  }

  async #retireOthers(): Promise<void> {
    const { ledger, clock, logger } = this.#options;
    const existing = new Set((this.#options.existing?.() ?? []).map(({ name }) => name));
    for (const { destination, retiredAt } of ledger.cursors()) {
      if (this.#feeders.has(destination) || existing.has(destination)) continue;
      if (retiredAt !== undefined) continue;
      const outcome = await ledger.retireCursor(destination, clock.now());
      if (outcome.kind === 'failed') logger.warn(`[${destination}] ${outcome.message}`);
      else logger.info(`[${destination}] destination is gone, its cursor is retired`);
    }
  }

  async #with<T>(
    name: string,
    action: (feeder: Pick<Feeder, 'operations' | 'reconcile'>) => Promise<T>,
  ): Promise<T | UnknownDestination> {
    const feeder = this.#find(name);
    return feeder === undefined ? { kind: 'unknown-destination' } : action(feeder);
  }

  #find(name: string): Feeder | StandIn | undefined {
    const feeder = this.#feeders.get(name);
    if (feeder !== undefined) return feeder;
    const existing = this.#options.existing?.().find((candidate) => candidate.name === name);
    return existing && this.#standIn(existing);
  }

  /** In place of a destination that cannot start; undefined while nobody knows of a reason. */
  #standIn(destination: ExistingDestination): StandIn | undefined {
    const { problem } = destination;
    if (problem === undefined) return undefined;
    const standIn = createStandIn(destination, problem.message, this.#options);
    return {
      ...standIn,
      status: () => ({ ...standIn.status(), problem: { ...problem, inForce: false } }),
    };
  }
}
