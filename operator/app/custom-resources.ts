import type { Controllers } from '../controllers/controllers.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import { aborted, type Part } from './parts.ts';

/** What others want to know of the controllers. */
type BoundControllers = Pick<Controllers, 'ready' | 'destinations'> &
  Partial<Pick<Controllers, 'pricesKnown' | 'giverOf'>>;

/**
 * The custom resources as delivery, budgets and enforcement see them. The controllers, which read them, report
 * on these and so are built after them: they are bound here before anything runs.
 */
export class CustomResources {
  readonly #watchesFit: () => boolean;
  #controllers: BoundControllers | undefined;

  /** Where `watchesFit` says no, the custom resources want other watches than those that were built. */
  constructor(watchesFit: () => boolean = () => true) {
    this.#watchesFit = watchesFit;
  }

  /** Once, before any part runs. */
  bind(controllers: BoundControllers): void {
    this.#controllers = controllers;
  }

  /**
   * Resolves when every custom resource that was there has been looked at. While the watches are not those
   * that they want nobody must bill by what is watched: it waits for the abort then, and rejects.
   */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#bound.ready(signal);
    if (this.#watchesFit()) return;
    await aborted(signal);
    signal.throwIfAborted();
  }

  /** The BillingDestinations that exist, also those whose settings cannot be used. */
  destinations(): readonly ExistingDestination[] {
    return this.#bound.destinations();
  }

  /** Whether every PriceBook that was there has been looked at. */
  pricesKnown(): boolean {
    return this.#bound.pricesKnown?.() ?? true;
  }

  /** As {@link Controllers.giverOf}. */
  giverOf(override: string | undefined): ReturnType<Controllers['giverOf']> {
    return this.#bound.giverOf?.(override);
  }

  get #bound(): BoundControllers {
    if (this.#controllers === undefined) throw new Error('the controllers are not built yet');
    return this.#controllers;
  }
}

/**
 * A part that begins when the custom resources have been looked at. They say who pays, for what and in which
 * windows: until then the settings are those of the environment alone, and what is done by them is wrong. Where
 * custom resources cannot be read the part waits; what it would have done is done later.
 */
export function whenConfigured(customResources: Pick<CustomResources, 'ready'>, part: Part): Part {
  return {
    name: part.name,
    run: async (signal) => {
      try {
        await customResources.ready(signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      await part.run(signal);
    },
  };
}
