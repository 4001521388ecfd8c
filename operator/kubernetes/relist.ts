import type { Clock } from '../telemetry/clock.ts';
import type { LiveView } from './live-view.ts';
import { identify } from './resource.ts';
import type { Arrival, Projected, RawObject } from './source.ts';

export interface RelistOptions<T extends Projected> {
  readonly view: LiveView<T>;
  readonly clock: Clock;
  /** Until when what the view holds is known to have been so, for a change that arrives at `at`. */
  readonly knownUntil: (at: number) => number;
  readonly onGarbage: () => void;
}

/**
 * Takes a whole list into a view and reports the differences: what the list does not have any more last, and only
 * when the list is whole.
 */
export class Relist<T extends Projected> {
  readonly #options: RelistOptions<T>;
  readonly #confirmed = new Set<T>();

  constructor(options: RelistOptions<T>) {
    this.#options = options;
  }

  /** Takes one item of the list. */
  take(object: RawObject): void {
    const { view, onGarbage } = this.#options;
    if (identify(object) === undefined) onGarbage();
    const { held } = view.upsert(object, this.#late());
    if (held !== undefined) this.#confirmed.add(held);
  }

  /** The list is whole: takes out what is gone. */
  finish(): void {
    const gone = [...this.#options.view.values()].filter((held) => !this.#confirmed.has(held));
    for (const held of gone) this.#options.view.drop(held, this.#late());
  }

  #late(): Arrival {
    const at = this.#options.clock.now();
    return { at, knownUntil: this.#options.knownUntil(at), late: true };
  }
}
