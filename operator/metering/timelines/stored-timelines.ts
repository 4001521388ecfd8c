import type { Projected } from '../../kubernetes/source.ts';
import type { Drained, Tracked } from './timeline-rules.ts';
import { type Span, spansAfter, type Timeline } from './timeline.ts';

/** Timelines of one kind by namespace and uid. They may be added and removed during iteration. */
class TimelineIndex<T extends Projected, S> {
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

  /** Adds a timeline that is not there yet. */
  add(timeline: Tracked<T, S>): void {
    const { namespace, uid } = timeline;
    const timelines = this.#byNamespace.get(namespace) ?? new Map<string, Tracked<T, S>>();
    this.#byNamespace.set(namespace, timelines.set(uid, timeline));
    this.#size += 1;
  }

  /** Removes a timeline that is there. */
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

/** What the journal has to write of one kind: timelines that changed, and those to forget. */
export class UnwrittenTimelines<T extends Projected, S> {
  readonly #index: TimelineIndex<T, S>;
  /** The timelines that are `dirty`: usually a few of many. */
  readonly #dirty = new Set<Tracked<T, S>>();
  readonly #removed = new Set<string>();

  /** `index` has the timelines that are not forgotten. */
  constructor(index: TimelineIndex<T, S>) {
    this.#index = index;
  }

  noteChanged(timeline: Tracked<T, S>): void {
    timeline.dirty = true;
    this.#dirty.add(timeline);
  }

  /** Adds a timeline; the journal must not forget it any more. */
  add(timeline: Tracked<T, S>): void {
    this.#removed.delete(timeline.uid);
    if (timeline.dirty) this.#dirty.add(timeline);
  }

  /** Notes that the journal has the current version. */
  noteWritten(timeline: Tracked<T, S>): void {
    timeline.dirty = false;
    this.#dirty.delete(timeline);
  }

  /** Removes a timeline; the journal must forget it. */
  remove(timeline: Tracked<T, S>): void {
    this.#dirty.delete(timeline);
    this.#removed.add(timeline.uid);
  }

  /** Returns the changes since the last call, of at most `limit` timelines; others come later. */
  drain(limit = Infinity): Drained<T, S> {
    const changed: Tracked<T, S>[] = [];
    for (const timeline of this.#dirty) {
      if (changed.length >= limit) break;
      changed.push(timeline);
      this.noteWritten(timeline);
    }
    const removed = [...this.#removed];
    this.#removed.clear();
    return { changed, removed };
  }

  /** Takes back drained changes that could not be written; the next call returns them again. */
  putBack({ changed, removed }: Drained<T, S>): void {
    for (const timeline of changed) {
      if (this.#index.find(timeline) === timeline) this.noteChanged(timeline);
    }
    this.discard(removed);
  }

  /** Makes the journal forget timelines that cannot be trusted, until their objects are seen. */
  discard(uids: Iterable<string>): void {
    for (const uid of uids) this.#removed.add(uid);
  }

  /** Forgets all pending changes; the journal must have none of them. */
  clear(): void {
    this.#dirty.clear();
  }
}

/** How long a gone object's timeline is stored, for a tenant cluster that is found late. */
const GONE_STORED_MS = 120_000;

/** How far back state changes of a live object are stored for late facts. */
const SPANS_STORED_MS = 600_000;

/** The timelines of one kind, which of them are late, and which will be forgotten. */
export class StoredTimelines<T extends Projected, S> {
  /** For look-ups. Add and remove timelines by {@link add} and {@link drop} only. */
  readonly index = new TimelineIndex<T, S>();
  /** Changes that the journal does not have yet. */
  readonly unwritten = new UnwrittenTimelines<T, S>(this.index);
  /** Timelines that differ from what closed windows billed. */
  readonly #late = new Set<Tracked<T, S>>();
  /** Timelines that are gone or have an ended span: {@link settle} forgets these later. */
  readonly #passing = new Set<Tracked<T, S>>();

  late(): Iterable<Tracked<T, S>> {
    return this.#late;
  }

  /** Adds a timeline that is not there yet. */
  add(timeline: Tracked<T, S>): void {
    this.index.add(timeline);
    this.unwritten.add(timeline);
    if (isPassing(timeline)) this.#passing.add(timeline);
    if (timeline.billed !== undefined) this.#late.add(timeline);
  }

  /** Call it when the spans of a timeline may have been replaced, or its object is gone. */
  noteSpans(timeline: Tracked<T, S>): void {
    if (isPassing(timeline)) this.#passing.add(timeline);
  }

  /** Sets what closed windows billed; undefined where they billed the current spans. */
  setBilled(timeline: Tracked<T, S>, billed: readonly Span<S>[] | undefined): void {
    timeline.billed = billed;
    if (billed === undefined) this.#late.delete(timeline);
    else this.#late.add(timeline);
  }

  /**
   * Marks the timelines of these namespaces as billed in their current form. Forgets what ended
   * long before `storedFrom`, unless `isNeeded`: no late fact can change it any more.
   */
  settle(
    isSettled: (namespace: string) => boolean,
    storedFrom: number,
    isNeeded: (object: T, horizon: number) => boolean,
  ): void {
    for (const timeline of this.#late) {
      if (!isSettled(timeline.namespace)) continue;
      this.setBilled(timeline, undefined);
      // The journal may have it as late: a restart would settle it again.
      this.unwritten.noteChanged(timeline);
    }
    const horizon = goneHorizon(storedFrom);
    for (const timeline of this.#passing) {
      if (!isSettled(timeline.namespace)) continue;
      if (timeline.gone && isNeeded(timeline.view, horizon)) continue;
      timeline.spans = spansAfter(timeline.spans, storedFrom - SPANS_STORED_MS);
      if (isLongGone(timeline, horizon)) this.drop(timeline);
      else if (!isPassing(timeline)) this.#passing.delete(timeline);
    }
  }

  /** Forgets a timeline that is there, late or not. */
  drop(timeline: Tracked<T, S>): void {
    this.index.remove(timeline);
    this.unwritten.remove(timeline);
    this.#late.delete(timeline);
    this.#passing.delete(timeline);
  }

  /** Forgets all timelines; the journal must have none of them. */
  clear(): void {
    this.index.clear();
    this.unwritten.clear();
    this.#late.clear();
    this.#passing.clear();
  }
}

/** Gone objects that ended by then are forgotten, once windows are closed up to `settled`. */
function goneHorizon(settled: number): number {
  return settled - GONE_STORED_MS;
}

/** Whether the object is gone and ended by `horizon`. */
function isLongGone({ gone, spans, versionAt }: Timeline<unknown>, horizon: number): boolean {
  return gone && (spans.at(-1)?.to ?? versionAt) <= horizon;
}

/** Whether some of it can be forgotten after some time. */
function isPassing({ gone, spans }: Timeline<unknown>): boolean {
  const [first] = spans;
  return gone || (first !== undefined && first.to < Infinity);
}

/**
 * Creates an empty timeline. Each field is written out: a copied object with additional fields
 * takes four times the memory.
 */
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
