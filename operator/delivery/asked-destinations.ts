import type { DestinationSettings } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import { sameDestination } from '../destinations/registry.ts';
import type { DeliveryOptions } from './delivery.ts';

/** Destinations that other processes feed, made here as well to be asked for something that no lease is needed for. */
export class AskedDestinations {
  readonly #create: DeliveryOptions['createDestination'];
  /** By name; by what settings they were made. */
  readonly #made = new Map<
    string,
    { readonly settings: DestinationSettings; readonly destination: Destination }
  >();

  constructor({ createDestination }: Pick<DeliveryOptions, 'createDestination'>) {
    this.#create = createDestination;
  }

  /** That of these settings, which are those of its first call until it is forgotten; undefined where it cannot be used. */
  of(settings: DestinationSettings): Destination | undefined {
    const { name } = settings;
    const made = this.#made.get(name);
    if (made !== undefined) return made.destination;
    const outcome = this.#create(settings);
    if (outcome.kind === 'invalid') return undefined;
    const { destination } = outcome;
    this.#made.set(name, { settings, destination });
    return destination;
  }

  /** Closes all but those that are still to be asked, and are as they were. */
  async keep(still: readonly DestinationSettings[]): Promise<void> {
    for (const [name, { settings, destination }] of this.#made) {
      if (still.some((one) => one.name === name && sameDestination(one, settings))) continue;
      this.#made.delete(name);
      await destination.close();
    }
  }
}
