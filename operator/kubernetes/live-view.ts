import { sameValue } from '../model/same-value.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { TimeSlice } from '../telemetry/time-slice.ts';
import { identify } from './resource.ts';
import type { Arrival, Projected, Projection, RawObject, SourceHandler } from './source.ts';

interface LiveViewOptions<T extends Projected> {
  readonly project: Projection<T>;
  /** Returns false to ignore the object and keep the previous version. */
  readonly accepts?: ((object: RawObject) => boolean) | undefined;
  readonly handlers: readonly SourceHandler<T>[];
  /** Queues the changes for the handlers; without it the view calls them at once. */
  readonly arrivals?: QueuedArrivals;
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

/**
 * The projected objects of one resource by namespace and name. Reports each change to the handlers.
 * An object with a known name and another uid is reported as a deletion and a creation.
 */
export class LiveView<T extends Projected> {
  readonly #options: Omit<LiveViewOptions<T>, 'initial'>;
  /** By namespace, then by name. */
  readonly #namespaces = new Map<string, Map<string, T>>();
  #size = 0;

  constructor(options: LiveViewOptions<T>) {
    const { initial, ...kept } = options;
    this.#options = kept;
    for (const value of initial) this.#put(value);
  }

  get size(): number {
    return this.#size;
  }

  *values(): IterableIterator<T> {
    for (const names of this.#namespaces.values()) yield* names.values();
  }

  find(namespace: string, name: string): T | undefined {
    return this.#namespaces.get(namespace)?.get(name);
  }

  /** Applies a version. `changed` is false when the projection equals the previous one. */
  upsert(
    object: RawObject,
    arrival: Arrival,
  ): {
    /** The view's object under this name afterwards; undefined when the projection ignores it. */
    readonly previous: T | undefined;
    readonly changed: boolean;
  } {
    const identity = identify(object);
    if (identity === undefined) return { previous: undefined, changed: false };
    const before = this.find(identity.namespace, identity.name);
    const projecting = this.#project(object);
    // Keep the previous version: our own error is not a deletion.
    if (projecting.kind === 'failed') return { previous: before, changed: false };
    const sameObject = before?.uid === identity.uid;
    if (sameObject && projecting.kind === 'projected') {
      if (sameValue(projecting.value, before)) return { previous: before, changed: false };
    }
    // The DELETED event of the earlier object was missed, so its time is unknown.
    if (before !== undefined && !sameObject) {
      const { at, knownUntil } = arrival;
      this.drop(before, { at, knownUntil, late: true });
    }
    if (projecting.kind === 'ignored') {
      if (before !== undefined && sameObject) this.drop(before, arrival);
      return { previous: undefined, changed: before !== undefined };
    }
    const next = projecting.value;
    this.#put(next);
    this.#report((handler) => handler.upserted(next, sameObject ? before : undefined, arrival));
    return { previous: next, changed: true };
  }

  /** Applies a DELETED event, which carries the final version. */
  remove(object: RawObject, arrival: Arrival): void {
    const identity = identify(object);
    if (identity === undefined) return;
    const before = this.find(identity.namespace, identity.name);
    if (before === undefined || before.uid !== identity.uid) return;
    const projecting = this.#project(object);
    this.#takeOut(before);
    const last = projecting.kind === 'projected' ? projecting.value : before;
    this.#report((handler) => handler.deleted(last, arrival));
  }

  /** Removes an object that a list lacks; its last known version is the final one. */
  drop(known: T, arrival: Arrival): void {
    this.#takeOut(known);
    this.#report((handler) => handler.deleted(known, arrival));
  }

  #put(value: T): void {
    let names = this.#namespaces.get(value.namespace);
    if (names === undefined) {
      names = new Map();
      this.#namespaces.set(value.namespace, names);
    }
    if (!names.has(value.name)) this.#size += 1;
    names.set(value.name, value);
  }

  #takeOut(value: T): void {
    const names = this.#namespaces.get(value.namespace);
    if (names?.delete(value.name) !== true) return;
    this.#size -= 1;
    if (names.size === 0) this.#namespaces.delete(value.namespace);
  }

  #project(object: RawObject): Projecting<T> {
    try {
      if (this.#options.accepts?.(object) === false) return { kind: 'failed' };
      const value = this.#options.project(object);
      return value === undefined ? { kind: 'ignored' } : { kind: 'projected', value };
    } catch (error) {
      this.#reportThrown('projection', error);
      return { kind: 'failed' };
    }
  }

  /** Calls every handler; an exception affects neither the watch nor the other handlers. */
  #report(call: (handler: SourceHandler<T>) => void): void {
    const { handlers, arrivals } = this.#options;
    for (const handler of handlers) {
      try {
        if (arrivals === undefined) call(handler);
        else arrivals.take(() => call(handler));
      } catch (error) {
        this.#reportThrown('handler', error);
      }
    }
  }

  #reportThrown(who: string, error: unknown): void {
    const { logger, resource, onHandlerFailure } = this.#options;
    onHandlerFailure();
    logger.error(`[controller] ${who} of ${resource} threw`, { error });
  }
}

/** Queues the changes that watches bring, in order, while the known objects must not change. */
export class QueuedArrivals {
  readonly #logger: Pick<Logger, 'error'>;
  #waiting: (() => void)[] | undefined;

  /** Logs the exception of a queued change, as for a handler. */
  constructor(logger: Pick<Logger, 'error'>) {
    this.#logger = logger;
  }

  get isQueueing(): boolean {
    return this.#waiting !== undefined;
  }

  /** Starts to queue changes. */
  begin(): void {
    this.#waiting ??= [];
  }

  /** Applies the change at once, or queues it. */
  take(arrival: () => void): void {
    if (this.#waiting === undefined) arrival();
    else this.#waiting.push(arrival);
  }

  /** Applies all queued changes. */
  release(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const arrival of waiting) this.#call(arrival);
  }

  /** Like {@link release}, but lets other work run in between; later arrivals are applied last. */
  async releaseInSlices(slice: TimeSlice): Promise<void> {
    for (const arrival of this.#waiting ?? []) {
      if (slice.isOver) await slice.next();
      this.#call(arrival);
    }
    this.#waiting = undefined;
  }

  #call(arrival: () => void): void {
    try {
      arrival();
    } catch (error) {
      this.#logger.error('[controller] a change that waited cannot be applied', { error });
    }
  }
}
