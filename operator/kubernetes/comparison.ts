import type { LiveView } from './live-view.ts';
import { identify, type ObjectIdentity } from './object-metadata.ts';
import type { Arrival, Projected, RawObject } from './source.ts';

/**
 * Compares a view with a list of the very version that its watch had reached when the list was asked
 * for, while the watch goes on. Whatever the watch changes meanwhile is left out, so every
 * difference is an event that never came. Differences are corrected in the view, and counted.
 */
export interface Comparison {
  readonly corrections: number;
  /** The watch is about to change this object. */
  readonly skip: (identity: ObjectIdentity) => void;
  /** An object of the list. */
  readonly take: (object: RawObject) => void;
  /** The list was whole: what it did not have is gone. */
  readonly finish: () => void;
}

export interface ComparisonOptions<T extends Projected> {
  readonly view: LiveView<T>;
  /** For a difference that is found at this moment. */
  readonly arrival: () => Arrival;
}

export function createComparison<T extends Projected>(options: ComparisonOptions<T>): Comparison {
  const { view } = options;
  const confirmed = new Set<T>();
  const movedOn = new Set<string>();
  let corrections = 0;

  return {
    get corrections() {
      return corrections;
    },
    skip: ({ uid, namespace, name }) => {
      movedOn.add(uid);
      const replaced = view.find(namespace, name);
      if (replaced !== undefined) movedOn.add(replaced.uid);
    },
    take: (object) => {
      const identity = identify(object);
      if (identity === undefined || movedOn.has(identity.uid)) return;
      const present = view.find(identity.namespace, identity.name);
      if (present !== undefined && movedOn.has(present.uid)) return;
      const { held, changed } = view.upsert(object, options.arrival());
      if (held !== undefined) confirmed.add(held);
      if (changed) corrections += 1;
    },
    finish: () => {
      for (const held of view.values()) {
        if (confirmed.has(held) || movedOn.has(held.uid)) continue;
        view.drop(held, options.arrival());
        corrections += 1;
      }
    },
  };
}
