import type { Projected } from '../../kubernetes/source.ts';
import type { Drained, Tracked } from './timeline-rules.ts';
import { type Span, spansAfter, type Timeline } from './timeline.ts';

/** Timelines of one kind by namespace and uid. They may be added and removed while they are looked at. */
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

/** What the journal does not have yet of the timelines of one kind: what has changed of them, and which it has to forget. */
export class UnwrittenTimelines<T extends Projected, S> {
  readonly #index: TimelineIndex<T, S>;
  /** Those that are `dirty`: a few of a great many. */
  readonly #dirty = new Set<Tracked<T, S>>();
  readonly #removed = new Set<string>();

  /** `index` has those that are not forgotten. */
  constructor(index: TimelineIndex<T, S>) {
    this.#index = index;
  }

  has(timeline: Tracked<T, S>): boolean {
    return this.#dirty.has(timeline);
  }

  /** It has changed. */
  noteChanged(timeline: Tracked<T, S>): void {
    timeline.dirty = true;
    this.#dirty.add(timeline);
  }

  /** It is kept from now on; what the journal has of it is not forgotten any more. */
  add(timeline: Tracked<T, S>): void {
    this.#removed.delete(timeline.uid);
    if (timeline.dirty) this.#dirty.add(timeline);
  }

  /** The journal has it as it is. */
  noteWritten(timeline: Tracked<T, S>): void {
    timeline.dirty = false;
    this.#dirty.delete(timeline);
  }

  /** It is kept no more: the journal forgets it. */
  remove(timeline: Tracked<T, S>): void {
    this.#dirty.delete(timeline);
    this.#removed.add(timeline.uid);
  }

  /** What has changed since the last call; of `limit` timelines at most, the others with later calls. */
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

  /** What was drained is not written after all: it is drained again. */
  putBack({ changed, removed }: Drained<T, S>): void {
    for (const timeline of changed) {
      if (this.#index.find(timeline) === timeline) this.noteChanged(timeline);
    }
    this.discard(removed);
  }

  /** The journal has these, but they cannot be trusted: it forgets those that are not seen again. */
  discard(uids: Iterable<string>): void {
    for (const uid of uids) this.#removed.add(uid);
  }

  /** None of them is kept, and the journal has none of what has changed. */
  clear(): void {
    this.#dirty.clear();
  }
}

/** How long a timeline whose object is gone is kept, so that a tenant cluster found late still gets it. */
const GONE_STORED_MS = 120_000;

/** How far back state changes of a live object are kept for late facts. */
const SPANS_STORED_MS = 600_000;

/** The timelines of one kind: which there are, which of them are late, and which are to be forgotten some time. */
export class StoredTimelines<T extends Projected, S> {
  /** To look them up in, and to be told of changes: what comes and goes does so by {@link add} and {@link drop}. */
  readonly index = new TimelineIndex<T, S>();
  /** What of them the journal does not have. */
  readonly unwritten = new UnwrittenTimelines<T, S>(this.index);
  /** Those of which closed windows billed something else. */
  readonly #late = new Set<Tracked<T, S>>();
  /** Those that are gone, or of which something has ended: {@link settle} forgets it some time. */
  readonly #passing = new Set<Tracked<T, S>>();

  late(): Iterable<Tracked<T, S>> {
    return this.#late;
  }

  /** One that is not there yet. */
  add(timeline: Tracked<T, S>): void {
    this.index.add(timeline);
    this.unwritten.add(timeline);
    if (isPassing(timeline)) this.#passing.add(timeline);
    if (timeline.billed !== undefined) this.#late.add(timeline);
  }

  /** To be called when its spans may have been replaced, or the object is gone. */
  noteSpans(timeline: Tracked<T, S>): void {
    if (isPassing(timeline)) this.#passing.add(timeline);
  }

  /** Closed windows billed this; undefined: they billed it as it stands. */
  setBilled(timeline: Tracked<T, S>, billed: readonly Span<S>[] | undefined): void {
    timeline.billed = billed;
    if (billed === undefined) this.#late.delete(timeline);
    else this.#late.add(timeline);
  }

  /**
   * In these namespaces everything is billed as it stands. Forgets what no late fact can change any more that ended long
   * before `keptFrom`, but nothing that `isNeeded` after a time.
   */
  settle(
    isSettled: (namespace: string) => boolean,
    storedFrom: number,
    isNeeded: (object: T, horizon: number) => boolean,
  ): void {
    for (const timeline of this.#late) {
      if (!isSettled(timeline.namespace)) continue;
      this.setBilled(timeline, undefined);
      // The journal may know it as late: after a restart it would be settled once more.
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

  /** One that is there: it is forgotten, late or not. */
  drop(timeline: Tracked<T, S>): void {
    this.index.remove(timeline);
    this.unwritten.remove(timeline);
    this.#late.delete(timeline);
    this.#passing.delete(timeline);
  }

  /** Forgets all there is, of which the journal has nothing. */
  clear(): void {
    this.index.clear();
    this.unwritten.clear();
    this.#late.clear();
    this.#passing.clear();
  }
}

/** What is gone and ended no later is forgotten, once windows are closed up to `settled`. */
function goneHorizon(settled: number): number {
  return settled - GONE_STORED_MS;
}

/** Whether the object is gone, and had ended by then. */
function isLongGone({ gone, spans, versionAt }: Timeline<unknown>, horizon: number): boolean {
  return gone && (spans.at(-1)?.to ?? versionAt) <= horizon;
}

/** Whether something of it is to be forgotten once it is long ago. */
function isPassing({ gone, spans }: Timeline<unknown>): boolean {
  const [first] = spans;
  return gone || (first !== undefined && first.to < Infinity);
}

/** A timeline that knows nothing yet. Each field is written out: a copied object with further fields takes four times the memory. */
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
