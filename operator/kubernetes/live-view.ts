import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '../telemetry/logger.ts';
import { identify, type ObjectIdentity } from './resource.ts';
import type { Arrival, Projected, Projection, RawObject, SourceHandler } from './source.ts';

/**
 * The projected objects of one resource by namespace and name, and the place where handlers learn
 * of every change. An object that is replaced under its name by one with another uid is a deletion
 * and a creation.
 */
export interface LiveView<T extends Projected> {
  readonly size: number;
  values(): IterableIterator<T>;
  find(namespace: string, name: string): T | undefined;
  /** Takes in a version. `changed` is false when the projection is as before. */
  upsert(object: RawObject, arrival: Arrival): Upsert<T>;
  /** Takes in a DELETED event, with the final version. */
  remove(object: RawObject, arrival: Arrival): void;
  /** Takes out an object that a list no longer has; its last known version is the final one. */
  drop(held: T, arrival: Arrival): void;
}

export interface Upsert<T> {
  /** What the view holds under the name afterwards; undefined when the object is not of interest. */
  readonly held: T | undefined;
  readonly changed: boolean;
}

export interface LiveViewOptions<T extends Projected> {
  readonly project: Projection<T>;
  readonly handlers: readonly SourceHandler<T>[];
  readonly logger: Logger;
  /** For log lines. */
  readonly resource: string;
  readonly initial: Iterable<T>;
  readonly onHandlerFailure: () => void;
}

type Projecting<T> =
  | { readonly kind: 'projected'; readonly value: T }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'failed' };

export function createLiveView<T extends Projected>(options: LiveViewOptions<T>): LiveView<T> {
  const namespaces = new Map<string, Map<string, T>>();
  let size = 0;

  const find = (namespace: string, name: string): T | undefined =>
    namespaces.get(namespace)?.get(name);

  function put(value: T): void {
    let names = namespaces.get(value.namespace);
    if (names === undefined) {
      names = new Map();
      namespaces.set(value.namespace, names);
    }
    if (!names.has(value.name)) size += 1;
    names.set(value.name, value);
  }

  function takeOut(value: T): void {
    const names = namespaces.get(value.namespace);
    if (names?.delete(value.name) !== true) return;
    size -= 1;
    if (names.size === 0) namespaces.delete(value.namespace);
  }

  function project(object: RawObject): Projecting<T> {
    try {
      const value = options.project(object);
      return value === undefined ? { kind: 'ignored' } : { kind: 'projected', value };
    } catch (error) {
      complain('projection', error);
      return { kind: 'failed' };
    }
  }

  /** A handler's mistake must cost neither the watch nor the other handlers. */
  function tell(call: (handler: SourceHandler<T>) => void): void {
    for (const handler of options.handlers) {
      try {
        call(handler);
      } catch (error) {
        complain('handler', error);
      }
    }
  }

  function complain(who: string, error: unknown): void {
    options.onHandlerFailure();
    options.logger.error(`[controller] ${who} of ${options.resource} threw`, { error });
  }

  function drop(held: T, arrival: Arrival): void {
    takeOut(held);
    tell((handler) => handler.deleted(held, arrival));
  }

  function upsert(object: RawObject, arrival: Arrival): Upsert<T> {
    const identity = identify(object);
    if (identity === undefined) return { held: undefined, changed: false };
    const before = find(identity.namespace, identity.name);
    const projecting = project(object);
    // Better the version before than none: a defect of ours is not a deletion.
    if (projecting.kind === 'failed') return { held: before, changed: false };
    const sameObject = before?.uid === identity.uid;
    if (sameObject && projecting.kind === 'projected') {
      if (isDeepStrictEqual(projecting.value, before)) return { held: before, changed: false };
    }
    // Its own DELETED event was missed, so nobody knows when it went.
    if (before !== undefined && !sameObject) drop(before, { ...arrival, late: true });
    if (projecting.kind === 'ignored') {
      if (before !== undefined && sameObject) drop(before, arrival);
      return { held: undefined, changed: before !== undefined };
    }
    const next = projecting.value;
    put(next);
    tell((handler) => handler.upserted(next, sameObject ? before : undefined, arrival));
    return { held: next, changed: true };
  }

  function remove(object: RawObject, arrival: Arrival): void {
    const identity = identify(object);
    if (identity === undefined) return;
    const before = find(identity.namespace, identity.name);
    if (before === undefined || before.uid !== identity.uid) return;
    const projecting = project(object);
    takeOut(before);
    const last = projecting.kind === 'projected' ? projecting.value : before;
    tell((handler) => handler.deleted(last, arrival));
  }

  for (const value of options.initial) put(value);

  return {
    get size() {
      return size;
    },
    values: function* () {
      for (const names of namespaces.values()) yield* names.values();
    },
    find,
    upsert,
    remove,
    drop,
  };
}

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
