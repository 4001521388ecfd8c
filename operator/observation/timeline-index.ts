import type { Projected } from '../kubernetes/source.ts';
import type { Tracked } from './timelines.ts';

/** Timelines of one kind by namespace and uid. They may be added and removed while they are looked at. */
export class TimelineIndex<T extends Projected, S> {
  readonly #byNamespace = new Map<string, Map<string, Tracked<T, S>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  find({ namespace, uid }: Pick<Projected, 'namespace' | 'uid'>): Tracked<T, S> | undefined {
    return this.#byNamespace.get(namespace)?.get(uid);
  }

  *namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Tracked<T, S>>]> {
    for (const [namespace, timelines] of this.#byNamespace) yield [namespace, timelines.values()];
  }

  inNamespace(namespace: string): Iterable<Tracked<T, S>> {
    return this.#byNamespace.get(namespace)?.values() ?? [];
  }

  *all(): Iterable<Tracked<T, S>> {
    for (const timelines of this.#byNamespace.values()) yield* timelines.values();
  }

  /** One that is not there yet. */
  add(timeline: Tracked<T, S>): void {
    const { namespace, uid } = timeline;
    const timelines = this.#byNamespace.get(namespace) ?? new Map<string, Tracked<T, S>>();
    this.#byNamespace.set(namespace, timelines.set(uid, timeline));
    this.#size += 1;
  }

  /** One that is there. */
  remove({ namespace, uid }: Pick<Projected, 'namespace' | 'uid'>): void {
    const timelines = this.#byNamespace.get(namespace);
    timelines?.delete(uid);
    if (timelines?.size === 0) this.#byNamespace.delete(namespace);
    this.#size -= 1;
  }

  clear(): void {
    this.#byNamespace.clear();
    this.#size = 0;
  }
}

/** A timeline of which nothing is known yet. Written out whole: an object that is copied and added to takes four times the room. */
export function createTracked<T extends Projected, S>(view: T, versionAt: number): Tracked<T, S> {
  const { uid, namespace, name } = view;
  return {
    uid,
    namespace,
    name,
    spans: [],
    versionAt,
    finished: false,
    gone: false,
    billed: undefined,
    dirty: true,
    view,
  };
}
