import type { DestinationSettings } from '../config/settings.ts';
import type { AskStanding, Destination } from '../destinations/destination.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { LedgerFailure, WriteOutcome } from '../ledger/ledger.ts';
import { isOwnCursor } from '../ledger/own-cursors.ts';
import { errorText } from '../model/error-text.ts';
import { askPublicKeys, askStanding, askTenants } from './asking.ts';
import type {
  Delivery,
  DeliveryOptions,
  UnknownDestination,
  UnusableDestination,
} from './delivery.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import { DestinationDirectory } from './destination-directory.ts';
import { comparePriceBooks, type ComparedDestination } from './operations/price-comparison.ts';
import { Notifying } from './notifying.ts';
import { ReportedRefusals } from './reported-refusals.ts';
import type { Feeder } from './feeder/feeder.ts';
import { MAX_SHOWN } from './feeder/feeder-status.ts';
import { reservePosition } from './feeder/start-position.ts';
import { RunningFeeders } from './running-feeders.ts';

export function createDelivery(options: DeliveryOptions): Delivery {
  return new DeliveryEngine(options);
}

/** What is public is bound to it, so that views can take the operations over one by one. */
class DeliveryEngine implements Delivery {
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

  readonly apply: Delivery['apply'] = (destinations) => {
    this.#wanted = destinations;
    return this.#inTurn(() => this.#applyWanted());
  };

  readonly reserve: Delivery['reserve'] = async () =>
    (await this.#inTurn(() => this.#reserve())) ??
    ledgerFailure('retryable', 'delivery: cursors cannot be committed: see the log');

  readonly run: Delivery['run'] = async (signal) => {
    if (signal.aborted) return;
    this.#running = true;
    await this.#inTurn(() => this.#applyWanted());
    await this.#inTurn(() => this.#reported.load());
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
      if (signal.aborted) resolve();
    });
    await this.close();
  };

  readonly close: Delivery['close'] = () =>
    this.#inTurn(async () => {
      this.#running = false;
      await this.#feeders.stopAll();
    });

  readonly status: Delivery['status'] = (name) =>
    this.statuses().find((status) => status.name === name);

  readonly statuses: Delivery['statuses'] = () =>
    this.#directory.statuses().map((status) => {
      const all = [...status.lateRefusals, ...this.#reported.of(status.type)];
      const newest = all.toSorted((a, b) => b.at - a.at).slice(0, MAX_SHOWN);
      return { ...status, lateRefusals: newest };
    });

  readonly offboard: Delivery['offboard'] = async (tenant) => {
    // Whoever is not told now is not told again.
    const told = this.#directory.all().map((feeder) => feeder.offboard(tenant));
    const outcomes = await Promise.all(told);
    return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
  };

  readonly notify: Delivery['notify'] = async (notice, told) => {
    if (!this.#running) return { told: [], waiting: ['destinations have not started'] };
    const isSuspended = (name: string): boolean =>
      this.#wanted.find((one) => one.name === name)?.suspend === true;
    const listening = this.#askable().filter((one) => 'notify' in one);
    const asleep = listening.filter(({ name }) => isSuspended(name) && !told.has(name));
    const awake = listening.filter((destination) => !asleep.includes(destination));
    const outcome = await this.#notifying.notify(awake, notice, told);
    const waiting = asleep.map(({ name }) => `${name}: it is suspended`);
    return { ...outcome, waiting: [...outcome.waiting, ...waiting] };
  };

  readonly deadLetters: Delivery['deadLetters'] = async (name, after, limit) =>
    this.#directory.find(name)?.operations.deadLetters(after, limit);

  readonly replay: Delivery['replay'] = (name, ids, force) =>
    this.#with(name, ({ operations }) => operations.replay(ids, force));

  readonly discard: Delivery['discard'] = (name, ids) =>
    this.#with(name, ({ operations }) => operations.discard(ids));

  readonly moveCursor: Delivery['moveCursor'] = (name, sequence, force) =>
    this.#with(name, ({ operations }) => operations.moveCursor(sequence, force));

  readonly reconcile: Delivery['reconcile'] = (name, query, signal) =>
    this.#with(name, (feeder) => feeder.reconcile(query, signal));

  readonly comparePrices: Delivery['comparePrices'] = async (name, question, signal) => {
    const compared = this.#compared(name);
    if ('kind' in compared) return compared;
    return comparePriceBooks(compared, question, signal);
  };

  readonly lookAtInvoices: Delivery['lookAtInvoices'] = async (name, tenants, signal) =>
    this.#feeders.get(name)?.feeder.invoices?.look(tenants, signal);

  readonly correctionOutlook: Delivery['correctionOutlook'] = async (name, stored) =>
    this.#directory.find(name)?.correctionOutlook(stored);

  readonly tenantsOf: Delivery['tenantsOf'] = (...asked) => askTenants(this.#askable(), ...asked);

  readonly publicKeysOf: Delivery['publicKeysOf'] = (...asked) =>
    askPublicKeys(this.#askable(), ...asked);

  readonly report: Delivery['report'] = (...reported) => this.#reported.add(...reported);

  readonly standing: AskStanding = (...asked) => askStanding(this.#askable(), ...asked);

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
  #inTurn<T>(action: () => Promise<T>): Promise<T | undefined> {
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
