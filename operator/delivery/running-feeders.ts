import type { DestinationSettings } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import { sameDestination } from '../destinations/registry.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { HeldLease } from '../ledger/leases.ts';
import type { DeliveryOptions } from './delivery.ts';
import type { DeliveryMetrics } from './delivery-metrics.ts';
import { createFeeder, type Feeder } from './feeder/feeder.ts';
import { createInvalidDestinationFeeder } from './feeder/invalid-destination.ts';
import { feederLease, guarded } from './shared-feeders.ts';

/** A feeder of this process. */
export interface RunningFeeder {
  readonly feeder: Feeder;
  /** What it sends to; undefined where it cannot be used. */
  readonly destination: Destination | undefined;
  /** By what it lives, where several processes deliver. */
  readonly right: FeederRight | undefined;
}

interface FeederRight {
  readonly held: HeldLease;
  /** Writes by this right. */
  readonly ledger: Ledger;
}

/** The feeders of this process, by destination: each as long as it is wanted as it is, and its lease is held. One call at a time. */
export class RunningFeeders {
  readonly #options: DeliveryOptions;
  readonly #metrics: DeliveryMetrics;
  readonly #running = new Map<string, RunningFeeder>();

  constructor(options: DeliveryOptions, metrics: DeliveryMetrics) {
    this.#options = options;
    this.#metrics = metrics;
  }

  get(name: string): RunningFeeder | undefined {
    return this.#running.get(name);
  }

  has(name: string): boolean {
    return this.#running.has(name);
  }

  list(): readonly RunningFeeder[] {
    return [...this.#running.values()];
  }

  /** Ends those that are not wanted as they are, begins those that are missing, and wakes the others. */
  async settle(wanted: ReadonlyMap<string, DestinationSettings>): Promise<void> {
    const stale = [...this.#running].flatMap(([name, { feeder, right }]) => {
      const settings = wanted.get(name);
      const isStale =
        settings === undefined ||
        !sameDestination(settings, feeder.settings) ||
        right?.held.ending.aborted === true;
      return isStale ? [name] : [];
    });
    await Promise.all(stale.map((name) => this.#stop(name, wanted.get(name))));
    for (const name of stale) if (!wanted.has(name)) this.#metrics.remove(name);
    for (const [name, settings] of wanted) {
      const running = this.#running.get(name);
      if (running === undefined) await this.#begin(settings);
      else running.feeder.wake();
    }
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((name) => this.#stop(name)));
  }

  /** Ends those at once whose lease is lost, whatever else is being changed. */
  endLost(): void {
    for (const { feeder, right } of this.#running.values()) {
      if (right?.held.lost.aborted === true) void feeder.stop('at once');
    }
  }

  /** Ends a feeder, and gives its lease up unless the same destination goes on with other settings. */
  async #stop(name: string, next?: DestinationSettings): Promise<void> {
    const running = this.#running.get(name);
    if (running === undefined) return;
    const { feeder, right } = running;
    const held = right?.held;
    const stopped = feeder.stop(held?.lost.aborted === true ? 'at once' : undefined);
    // Whoever loses its lease while it ends does not take its time.
    const atOnce = (): void => void feeder.stop('at once');
    held?.lost.addEventListener('abort', atOnce, { once: true });
    await stopped;
    held?.lost.removeEventListener('abort', atOnce);
    this.#running.delete(name);
    if (held !== undefined && (next === undefined || held.ending.aborted)) await held.release();
  }

  /** Begins feeding, where that is this process's. */
  async #begin(settings: DestinationSettings): Promise<void> {
    const { shared, logger } = this.#options;
    if (shared === undefined) {
      this.#start(settings);
      return;
    }
    const held = shared.leases.held().get(feederLease(settings.name));
    if (held === undefined) return;
    if (held.ending.aborted) {
      await held.release();
      return;
    }
    const given = await shared.heldBy(held);
    if (given.kind === 'held') {
      this.#start(settings, { held, ledger: given.ledger });
      return;
    }
    logger.warn(`[${settings.name}] ${given.message}`);
    // It is claimed again with the next look, by this process or another.
    await held.release();
  }

  #start(settings: DestinationSettings, right?: FeederRight): void {
    const { createDestination, logger } = this.#options;
    const { name } = settings;
    const options =
      right === undefined
        ? this.#options
        : { ...this.#options, ledger: right.ledger, othersAsk: true };
    const outcome = createDestination(settings);
    if (outcome.kind === 'invalid') {
      logger.error(`[${name}] cannot be used: ${outcome.reason}`);
      const feeder = createInvalidDestinationFeeder(settings, outcome.reason, options);
      this.#running.set(name, { feeder, destination: undefined, right });
      return;
    }
    const destination =
      right === undefined ? outcome.destination : guarded(outcome.destination, right.held);
    const feeder = createFeeder({ ...options, settings, metrics: this.#metrics, destination });
    this.#running.set(name, { feeder, destination, right });
    feeder.start();
  }
}
