import type { Clock } from '../telemetry/clock.ts';
import type { LiveView } from './live-view.ts';
import { identify } from './resource.ts';
import type { Arrival, Bracket, LastSign, Projected, RawObject } from './source.ts';

/** Tells of objects that a list does not have any more when they were last said to be there, by uid. */
export type LastSigns<T> = (
  gone: readonly T[],
  within: Bracket,
  signal: AbortSignal,
) => Promise<ReadonlyMap<string, LastSign>>;

export interface RelistOptions<T extends Projected> {
  readonly view: LiveView<T>;
  readonly clock: Clock;
  /** Until when what the view holds is known to have been so, for a change that arrives at `at`. */
  readonly knownUntil: (at: number) => number;
  readonly lastSigns: LastSigns<T> | undefined;
  readonly onGarbage: () => void;
}

/** So many objects that have taken the names of others wait until it is known when those went. */
const MOST_SUCCESSORS = 200;

/**
 * Takes a whole list into a view and tells the differences: what the list does not have any more last, and only
 * when the list is whole.
 */
export class Relist<T extends Projected> {
  readonly #options: RelistOptions<T>;
  readonly #confirmed = new Set<T>();
  readonly #successors: RawObject[] = [];
  #signs: ReadonlyMap<string, LastSign> | undefined;

  constructor(options: RelistOptions<T>) {
    this.#options = options;
  }

  /** Takes one item of the list. */
  take(object: RawObject): void {
    const { view, lastSigns, onGarbage } = this.#options;
    const identity = identify(object);
    if (identity === undefined) onGarbage();
    const before = identity && view.find(identity.namespace, identity.name);
    const isSuccessor = before !== undefined && before.uid !== identity?.uid;
    const canWait = lastSigns !== undefined && this.#successors.length < MOST_SUCCESSORS;
    if (isSuccessor && canWait) this.#successors.push(object);
    else this.#upsert(object);
  }

  /** The list is whole: learns what others say of what is gone. Undefined where there is nobody to ask. */
  askSigns(signal: AbortSignal): Promise<void> | undefined {
    const { lastSigns, knownUntil, clock } = this.#options;
    const gone = this.#gone();
    if (lastSigns === undefined || gone.length === 0) return undefined;
    const now = clock.now();
    return lastSigns(gone, { from: knownUntil(now), until: now }, signal).then((signs) => {
      this.#signs = signs;
    });
  }

  /** The list is whole: takes out what is gone. */
  finish(): void {
    for (const held of this.#gone()) {
      const sign = this.#signs?.get(held.uid);
      const arrival = sign === undefined ? this.#late() : { ...this.#late(sign.at), sign };
      this.#options.view.drop(held, arrival);
    }
    for (const object of this.#successors) this.#upsert(object);
  }

  #upsert(object: RawObject): void {
    const { held } = this.#options.view.upsert(object, this.#late());
    if (held !== undefined) this.#confirmed.add(held);
  }

  #gone(): readonly T[] {
    return [...this.#options.view.values()].filter((held) => !this.#confirmed.has(held));
  }

  #late(knownUntil = this.#options.knownUntil(this.#options.clock.now())): Arrival {
    return { at: this.#options.clock.now(), knownUntil, late: true };
  }
}
