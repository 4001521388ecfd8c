import type { DestinationSettings } from '../settings/settings.ts';
import { sameDestination } from '../destinations/registry.ts';
import type { DeliveryOptions } from './delivery-options.ts';
import type { DeliveryMetrics } from './delivery-metrics.ts';
import { DestinationFeeder, type Feeder } from './feeder/feeder.ts';
import { createInvalidDestinationFeeder } from './feeder/invalid-destination.ts';

/** Feeders by destination. Each runs while its settings stay unchanged. One call at a time. */
export class RunningFeeders {
  readonly #options: DeliveryOptions;
  readonly #metrics: DeliveryMetrics;
  readonly #running = new Map<string, Feeder>();

  constructor(options: DeliveryOptions, metrics: DeliveryMetrics) {
    this.#options = options;
    this.#metrics = metrics;
  }

  get(name: string): Feeder | undefined {
    return this.#running.get(name);
  }

  has(name: string): boolean {
    return this.#running.has(name);
  }

  list(): readonly Feeder[] {
    return [...this.#running.values()];
  }

  /** Stops feeders with removed or changed settings, starts missing ones, and wakes the others. */
  async settle(wanted: ReadonlyMap<string, DestinationSettings>): Promise<void> {
    const stale = [...this.#running].flatMap(([name, feeder]) => {
      const settings = wanted.get(name);
      return settings === undefined || !sameDestination(settings, feeder.settings) ? [name] : [];
    });
    await Promise.all(stale.map((name) => this.#stop(name)));
    for (const name of stale) if (!wanted.has(name)) this.#metrics.remove(name);
    for (const [name, settings] of wanted) {
      const running = this.#running.get(name);
      if (running === undefined) this.#start(settings);
      else running.wake();
    }
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((name) => this.#stop(name)));
  }

  async #stop(name: string): Promise<void> {
    const running = this.#running.get(name);
    if (running === undefined) return;
    await running.stop();
    this.#running.delete(name);
  }

  #start(settings: DestinationSettings): void {
    const { createDestination, logger } = this.#options;
    const { name } = settings;
    const outcome = createDestination(settings);
    if (outcome.kind === 'invalid') {
      logger.error(`[${name}] cannot be used: ${outcome.reason}`);
      const feeder = createInvalidDestinationFeeder(settings, outcome.reason, this.#options);
      this.#running.set(name, feeder);
      return;
    }
    const { destination } = outcome;
    const feeder = new DestinationFeeder({
      ...this.#options,
      settings,
      metrics: this.#metrics,
      destination,
    });
    this.#running.set(name, feeder);
    feeder.start();
  }
}
