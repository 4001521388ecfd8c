import type { LiveView } from './live-view.ts';
import { identify, type ObjectIdentity } from './resource.ts';
import type { Arrival, Projected, RawObject } from './source.ts';

/**
 * Applies a complete list to a view and counts the differences. Objects missing from the list are
 * removed last, and only when the list is complete. Objects that a watch changes meanwhile are
 * skipped.
 */
export class Relist<T extends Projected> {
  readonly #view: LiveView<T>;
  readonly #arrival: () => Arrival;
  readonly #confirmed = new Set<T>();
  /** Uids of objects that a watch has changed since the list was requested. */
  readonly #movedOn = new Set<string>();
  #differences = 0;

  /** `arrival` returns the arrival of a difference found at the time of the call. */
  constructor(view: LiveView<T>, arrival: () => Arrival) {
    this.#view = view;
    this.#arrival = arrival;
  }

  get differences(): number {
    return this.#differences;
  }

  /** The watch is about to change this object. */
  skip({ uid, namespace, name }: ObjectIdentity): void {
    this.#movedOn.add(uid);
    const replaced = this.#view.find(namespace, name);
    if (replaced !== undefined) this.#movedOn.add(replaced.uid);
  }

  /** Applies an item of the list. Returns false without an identity: it is no object. */
  take(object: RawObject): boolean {
    const identity = identify(object);
    if (identity === undefined) return false;
    if (this.#movedOn.has(identity.uid)) return true;
    const current = this.#view.find(identity.namespace, identity.name);
    if (current !== undefined && this.#movedOn.has(current.uid)) return true;
    const { previous: known, changed } = this.#view.upsert(object, this.#arrival());
    if (known !== undefined) this.#confirmed.add(known);
    if (changed) this.#differences += 1;
    return true;
  }

  /** The list is complete: removes the objects that it lacks. */
  finish(): void {
    for (const known of this.#view.values()) {
      if (this.#confirmed.has(known) || this.#movedOn.has(known.uid)) continue;
      this.#view.drop(known, this.#arrival());
      this.#differences += 1;
    }
  }
}
