import type { Controllers } from '../controllers/controllers.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import { aborted, type Component } from './components.ts';

/** The controllers, as far as other components use them. */
type KnownControllers = Pick<Controllers, 'ready' | 'destinations'> &
  Partial<Pick<Controllers, 'pricesKnown' | 'giverOf'>>;

/**
 * The custom resources as delivery, budgets and enforcement see them. The controllers report on
 * delivery, so they are built after it. `controllers` returns them once components run, and nothing
 * calls it earlier.
 */
export class CustomResources {
  readonly #controllers: () => KnownControllers;
  readonly #watchesFit: () => boolean;

  /** `watchesFit` returns false if the custom resources require other watches than those built. */
  constructor(controllers: () => KnownControllers, watchesFit: () => boolean = () => true) {
    this.#controllers = controllers;
    this.#watchesFit = watchesFit;
  }

  /**
   * Resolves when every existing custom resource has been read. If the watches do not fit the
   * custom resources, it waits for the abort and rejects: nothing may be billed from those watches.
   */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#controllers().ready(signal);
    if (this.#watchesFit()) return;
    await aborted(signal);
    signal.throwIfAborted();
  }

  /** All existing BillingDestinations, including those with invalid settings. */
  destinations(): readonly ExistingDestination[] {
    return this.#controllers().destinations();
  }

  /** True when every existing PriceBook has been read. */
  pricesKnown(): boolean {
    return this.#controllers().pricesKnown?.() ?? true;
  }

  /** See {@link Controllers.giverOf}. */
  giverOf(override: string | undefined): ReturnType<Controllers['giverOf']> {
    return this.#controllers().giverOf?.(override);
  }
}

/**
 * Returns a component that starts when the custom resources have been read. They define who pays,
 * for what, and in which windows; before that only the settings of the environment apply. The
 * component waits while the custom resources cannot be read, and does its work later.
 */
export function whenConfigured(
  customResources: Pick<CustomResources, 'ready'>,
  component: Component,
): Component {
  return {
    name: component.name,
    run: async (signal) => {
      try {
        await customResources.ready(signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      await component.run(signal);
    },
  };
}
