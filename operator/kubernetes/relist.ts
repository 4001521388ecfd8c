import type { LiveView } from './live-view.ts';
import { identify, type ObjectIdentity } from './resource.ts';
import type { Arrival, Projected, RawObject } from './source.ts';

/**
 * Takes a whole list into a view and reports the differences: what the list does not have any more last, and only
 * when the list is whole. Objects that a watch changes meanwhile are left out.
 */
export class Relist<T extends Projected> {
  readonly #view: LiveView<T>;
  readonly #arrival: () => Arrival;
  readonly #confirmed = new Set<T>();
  /** Uids of objects that a watch has changed since the list was requested. */
  readonly #movedOn = new Set<string>();
  #differences = 0;

  /** `arrival` is that of a difference that is found when it is called. */
  constructor(view: LiveView<T>, arrival: () => Arrival) {
    this.#view = view;
    this.#arrival = arrival;
  }

  /** How many differences were reported. */
  get differences(): number {
    return this.#differences;
  }

  /** The watch is about to change this object. */
  skip({ uid, namespace, name }: ObjectIdentity): void {
    this.#movedOn.add(uid);
    const replaced = this.#view.find(namespace, name);
    if (replaced !== undefined) this.#movedOn.add(replaced.uid);
  }

  /** Takes one item of the list. Returns false when it has no identity, and so is no object. */
  take(object: RawObject): boolean {
    const identity = identify(object);
    if (identity === undefined) return false;
    if (this.#movedOn.has(identity.uid)) return true;
    const current = this.#view.find(identity.namespace, identity.name);
    if (current !== undefined && this.#movedOn.has(current.uid)) return true;
    const { previous: held, changed } = this.#view.upsert(object, this.#arrival());
    if (held !== undefined) this.#confirmed.add(held);
    if (changed) this.#differences += 1;
    return true;
  }

  /** The list is whole: takes out what is gone. */
  finish(): void {
    for (const held of this.#view.values()) {
      if (this.#confirmed.has(held) || this.#movedOn.has(held.uid)) continue;
      this.#view.drop(held, this.#arrival());
      this.#differences += 1;
    }
  }
}
