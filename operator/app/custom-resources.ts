import type { Controllers } from '../controllers/controllers.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import { aborted, type Component } from './components.ts';

/** What others want to know of the controllers. */
type KnownControllers = Pick<Controllers, 'ready' | 'destinations'> &
  Partial<Pick<Controllers, 'pricesKnown' | 'giverOf'>>;

/**
 * The custom resources as delivery, budgets and enforcement see them. The controllers read custom resources and report
 * on delivery, so they are built after it: `controllers` returns them once parts run, and nothing calls it before.
 */
export class CustomResources {
  readonly #controllers: () => KnownControllers;
  readonly #watchesFit: () => boolean;

  /** Where `watchesFit` says no, the custom resources want other watches than those that were built. */
  constructor(controllers: () => KnownControllers, watchesFit: () => boolean = () => true) {
    this.#controllers = controllers;
    this.#watchesFit = watchesFit;
  }

  /**
   * Resolves when every custom resource that was there has been looked at. While the watches are not those
   * that they want nobody must bill by what is watched: it waits for the abort then, and rejects.
   */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#controllers().ready(signal);
    if (this.#watchesFit()) return;
    await aborted(signal);
    signal.throwIfAborted();
  }

  /** The BillingDestinations that exist, also those whose settings cannot be used. */
  destinations(): readonly ExistingDestination[] {
    return this.#controllers().destinations();
  }

  /** Whether every PriceBook that was there has been looked at. */
  pricesKnown(): boolean {
    return this.#controllers().pricesKnown?.() ?? true;
  }

  /** As {@link Controllers.giverOf}. */
  giverOf(override: string | undefined): ReturnType<Controllers['giverOf']> {
    return this.#controllers().giverOf?.(override);
  }
}

/**
 * A part that begins when the custom resources have been looked at. They say who pays, for what and in which
 * windows: until then the settings are those of the environment alone, and what is done by them is wrong. Where
 * custom resources cannot be read the part waits; what it would have done is done later.
 */
export function whenConfigured(
  customResources: Pick<CustomResources, 'ready'>,
  part: Component,
): Component {
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
