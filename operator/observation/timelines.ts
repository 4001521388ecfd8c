import {
  type Arrival,
  type Bracket,
  happenedBetween,
  type Projected,
  type SourceHandler,
} from '../kubernetes/source.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import {
  agreeBefore,
  endedByEvent,
  enter,
  type Span,
  spansAfter,
  type Timeline,
  wholly,
  widthOf,
} from './timeline.ts';

/** What of an object every kind of timeline needs. */
export interface Observed extends Projected {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** How one kind of object is followed. */
export interface TimelineRules<T extends Observed, S> {
  /** Names the kind in the journal. */
  readonly kind: string;
  /** Brings a timeline up to date with a version of its object. */
  readonly follow: (timeline: Timeline<S>, next: T, seen: Sighting) => void;
  /** The newest time that a version itself says; it came about no earlier. */
  readonly datedAt?: (object: T) => number;
  /** The object is gone; nothing of it may be billed beyond `latest`. By default it is billed up to there. */
  readonly finish?: (timeline: Timeline<S>, last: T, seen: Sighting, latest: number) => void;
  /**
   * The moment up to which a vanished object is billed, given when it is known to have been there;
   * WATCH_DELETIONS=false makes it the last window end before (docs/metering.md#times).
   */
  readonly billedUntil?: (present: number) => number;
  /** True while a vanished object has to stay known for the sake of others that live on after `horizon`. */
  readonly isNeeded?: (object: T, horizon: number) => boolean;
}

/** A timeline with the newest version of its object, for the journal. */
export interface Tracked<T extends Projected, S> extends Timeline<S> {
  view: T;
}

/** What the journal has to write, and which uids it has to forget. */
export interface Drained<T extends Projected, S> {
  readonly changed: readonly Tracked<T, S>[];
  readonly removed: readonly string[];
}

/** The timelines of one kind of object, kept by the watch that it handles. */
export interface Timelines<T extends Projected, S> extends SourceHandler<T> {
  readonly kind: string;
  readonly size: number;
  /** Whether it has a timeline, gone or not. */
  has(object: Projected): boolean;
  /** By namespace, so that a window close touches each live object once. */
  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]>;
  inNamespace(namespace: string): Iterable<Timeline<S>>;
  /** Those whose billed past has changed since the last window was closed. */
  late(): Iterable<Timeline<S>>;
  /**
   * Everything before `end` is billed as it stands, outside of namespaces that are apart; forgets what
   * no late fact can change any more.
   */
  settle(end: number, part?: SettledPart): void;
  /** The windows of a namespace are closed apart from now on; they are closed up to `settled`. */
  setApart(namespace: string, settled: number): void;
  /** They are closed with the others again: both have got to the same end. */
  rejoin(namespace: string): void;
  /** Those that {@link drain} would give now, as many as there are at the first; they stay what they are. */
  changed(): Iterable<Tracked<T, S>>;
  /** Changes of timelines since the last call, for the journal; of `limit` timelines at most, the rest with later calls. */
  drain(limit?: number): Drained<T, S>;
  /** What was drained is not written after all: it is drained again. */
  putBack(drained: Drained<T, S>): void;
  /** Puts back the timelines of the journal; `settled` is the end of the last closed window. */
  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void;
  /** The journal holds these, but what it says of them is not to be believed: it forgets those that are not seen again. */
  discard(uids: Iterable<string>): void;
  /** Forgets all there is; only for what neither a window nor the journal has made use of. */
  forget(): void;
  /** Follows every live object anew: settings that the rules depend on have changed. */
  refresh(at: number): void;
  /**
   * The first list is in: from here on it is known what closed windows billed. What the journal knew
   * and the watch does not hold vanished unseen, and is billed until it was last known to be there;
   * it may have gone at any moment until `listedAt`. With `isListed` only that of some namespaces.
   */
  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt?: number,
    isListed?: (namespace: string) => boolean,
  ): void;
}

export interface SettledPart {
  /** The one namespace that is settled; it is apart. */
  readonly namespace?: string;
  /** What was there from here on is still needed, where others are not settled as far. */
  readonly keptFrom?: number;
}

/** How long a timeline whose object is gone is kept, so that a tenant cluster found late still gets it. */
const GONE_KEPT_MS = 120_000;

/** How far back state changes of a live object are kept for late facts. */
const SPANS_KEPT_MS = 600_000;

/** A live view of what each object was, from when to when. `countClamped` is told of API times that were moved. */
/** Written out whole: an object that is copied and added to takes four times the room. */
function createTracked<T extends Projected, S>(view: T, versionAt: number): Tracked<T, S> {
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

export function createTimelines<T extends Observed, S>(
  rules: TimelineRules<T, S>,
  countClamped: () => void = () => undefined,
): Timelines<T, S> {
  return new TimelineStore(rules, countClamped);
}

class TimelineStore<T extends Observed, S> implements Timelines<T, S> {
  readonly #rules: TimelineRules<T, S>;
  readonly #countClamped: () => void;
  readonly #byNamespace = new Map<string, Map<string, Tracked<T, S>>>();
  readonly #late = new Set<Timeline<S>>();
  readonly #removed = new Set<string>();
  #size = 0;
  #settled = -Infinity;
  /** Without a journal nobody knows what closed windows billed of the objects of the first list. */
  #pastKnown = false;
  /** Up to where namespaces are settled that are apart. */
  readonly #apart = new Map<string, number>();

  constructor(rules: TimelineRules<T, S>, countClamped: () => void) {
    this.#rules = rules;
    this.#countClamped = countClamped;
  }

  get kind(): string {
    return this.#rules.kind;
  }

  get size(): number {
    return this.#size;
  }

  has(object: Projected): boolean {
    return this.#find(object) !== undefined;
  }

  *namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]> {
    for (const [namespace, timelines] of this.#byNamespace) yield [namespace, timelines.values()];
  }

  inNamespace(namespace: string): Iterable<Timeline<S>> {
    return this.#byNamespace.get(namespace)?.values() ?? [];
  }

  late(): Iterable<Timeline<S>> {
    return this.#late;
  }

  upserted(next: T, _previous: T | undefined, arrival: Arrival): void {
    this.#see(next, arrival);
  }

  deleted(last: T, arrival: Arrival): void {
    const known = arrival.late ? this.#find(last) : undefined;
    const timeline = known ?? this.#see(last, arrival);
    const seen = this.#sighting(timeline, last, arrival, false);
    const { sign } = arrival;
    this.#end(timeline, seen.from, (latest) => {
      if (this.#rules.finish === undefined) enter(timeline, undefined, latest, widthOf(seen));
      else this.#rules.finish(timeline, last, seen, latest);
      if (sign === undefined || sign.at !== latest) return;
      timeline.spans = endedByEvent(timeline.spans, latest, sign.reason);
    });
  }

  settle(boundary: number, { namespace: only, keptFrom = boundary }: SettledPart = {}): void {
    if (only === undefined) this.#settled = boundary;
    else this.#apart.set(only, boundary);
    const isSettled = (namespace: string): boolean =>
      only === undefined ? !this.#apart.has(namespace) : namespace === only;
    for (const timeline of this.#late) {
      if (!isSettled(timeline.namespace)) continue;
      timeline.billed = undefined;
      // The journal may know it as late: after a restart it would be settled once more.
      timeline.dirty = true;
      this.#late.delete(timeline);
    }
    const kept = Math.min(boundary, keptFrom);
    const horizon = kept - GONE_KEPT_MS;
    for (const [namespace, timelines] of this.#byNamespace) {
      if (!isSettled(namespace)) continue;
      for (const timeline of timelines.values()) {
        if (timeline.gone && this.#rules.isNeeded?.(timeline.view, horizon) === true) continue;
        timeline.spans = spansAfter(timeline.spans, kept - SPANS_KEPT_MS);
        const last = timeline.spans.at(-1);
        if (timeline.gone && (last?.to ?? timeline.versionAt) <= horizon) this.#drop(timeline);
      }
    }
  }

  setApart(namespace: string, settled: number): void {
    this.#apart.set(namespace, settled);
  }

  rejoin(namespace: string): void {
    this.#apart.delete(namespace);
  }

  *changed(): Iterable<Tracked<T, S>> {
    let left = this.#size;
    for (const timeline of this.#all()) {
      if (left === 0) return;
      left -= 1;
      if (timeline.dirty) yield timeline;
    }
  }

  drain(limit = Infinity): Drained<T, S> {
    const changed: Tracked<T, S>[] = [];
    for (const timeline of this.changed()) {
      if (changed.length >= limit) break;
      changed.push(timeline);
      timeline.dirty = false;
    }
    const removed = [...this.#removed];
    this.#removed.clear();
    return { changed, removed };
  }

  putBack({ changed, removed }: Drained<T, S>): void {
    for (const timeline of changed) timeline.dirty = true;
    for (const uid of removed) this.#removed.add(uid);
  }

  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void {
    for (const timeline of timelines) {
      this.#keep(timeline);
      if (timeline.billed !== undefined) this.#late.add(timeline);
    }
    this.#settled = settled;
    this.#pastKnown = true;
  }

  discard(uids: Iterable<string>): void {
    for (const uid of uids) this.#removed.add(uid);
  }

  forget(): void {
    this.#byNamespace.clear();
    this.#late.clear();
    this.#size = 0;
  }

  refresh(at: number): void {
    for (const timeline of this.#all()) {
      if (timeline.gone) continue;
      // Settings hold from their change on, whatever times the object gives.
      const { versionAt } = timeline;
      timeline.versionAt = at;
      this.#see(timeline.view, { at, knownUntil: at, late: false });
      // The object was not seen again: it may be gone since.
      timeline.versionAt = versionAt;
    }
  }

  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt = knownUntil,
    isListed: (namespace: string) => boolean = () => true,
  ): void {
    for (const timeline of this.#all()) {
      if (timeline.gone || !isListed(timeline.namespace) || holds(timeline)) continue;
      const known = this.#lastKnown(timeline, knownUntil);
      this.#end(timeline, known, (latest) =>
        enter(timeline, undefined, latest, Math.max(0, listedAt - latest)),
      );
    }
    this.#pastKnown = true;
  }

  *#all(): Iterable<Tracked<T, S>> {
    for (const timelines of this.#byNamespace.values()) yield* timelines.values();
  }

  #find(object: Projected): Tracked<T, S> | undefined {
    return this.#byNamespace.get(object.namespace)?.get(object.uid);
  }

  #keep(timeline: Tracked<T, S>): void {
    const timelines = this.#byNamespace.get(timeline.namespace) ?? new Map<string, Tracked<T, S>>();
    this.#byNamespace.set(timeline.namespace, timelines.set(timeline.uid, timeline));
    this.#removed.delete(timeline.uid);
    this.#size += 1;
  }

  #drop(timeline: Timeline<S>): void {
    const timelines = this.#byNamespace.get(timeline.namespace);
    timelines?.delete(timeline.uid);
    if (timelines?.size === 0) this.#byNamespace.delete(timeline.namespace);
    this.#removed.add(timeline.uid);
    this.#size -= 1;
  }

  #see(next: T, arrival: Arrival): Tracked<T, S> {
    const known = this.#find(next);
    const timeline = known ?? createTracked<T, S>(next, arrival.at);
    const seen = this.#sighting(timeline, next, arrival, known === undefined);
    const before = timeline.spans;
    wholly(timeline, () => this.#rules.follow(timeline, next, seen));
    if (known === undefined) this.#keep(timeline);
    // It was not of interest for a while, as a Service whose type changed to and fro.
    timeline.gone = false;
    this.#rememberBilled(timeline, before);
    // A list shows what is so now, a resumed watch what was so then.
    timeline.versionAt = arrival.late ? arrival.at : seen.from;
    timeline.view = next;
    timeline.dirty = true;
    return timeline;
  }

  #sighting(timeline: Timeline<S>, object: T, arrival: Arrival, first: boolean): Sighting {
    const born = Math.max(object.createdAt, arrival.late ? arrival.knownUntil : 0);
    const notBefore = first ? born : timeline.versionAt;
    const { datedAt } = this.#rules;
    const dated = Math.min(datedAt?.(object) ?? object.createdAt, arrival.at);
    const bracket = this.#bracket(timeline, arrival, Math.max(notBefore, dated));
    return sightingOf(arrival, bracket, notBefore, first, this.#countClamped);
  }

  /**
   * When the change came about that a version tells: after the version before, after what began before
   * it, and after the windows that were closed with all of it seen.
   */
  #bracket(timeline: Timeline<S>, arrival: Arrival, notBefore: number): Bracket {
    const happened = happenedBetween(arrival);
    const settled = this.#settledIn(timeline.namespace);
    const after = Math.max(happened.from, notBefore, settled);
    // What a version says of itself weighs more than what other objects' dates make of its number.
    const until = Math.max(happened.until, notBefore);
    const last = timeline.spans.at(-1);
    // What began without a time began at some moment, of which its own is the last.
    const began = last === undefined ? -Infinity : last.from - (last.unsureFrom ?? 0);
    const from = Math.max(began, Math.min(after, until));
    return { from, until: Math.max(from, until) };
  }

  /** Remembers what was billed where a change reached back before the last closed window. */
  #rememberBilled(timeline: Timeline<S>, before: readonly Span<S>[]): void {
    if (timeline.spans === before || timeline.billed !== undefined || !this.#pastKnown) return;
    if (agreeBefore(before, timeline.spans, this.#settledIn(timeline.namespace))) return;
    timeline.billed = before;
    this.#late.add(timeline);
  }

  /**
   * When an object that vanished unseen is known to have been there. A window was closed only with all
   * of it seen, so that what was billed of it stands.
   */
  #lastKnown({ namespace }: Projected, knownUntil: number): number {
    return Math.max(knownUntil, this.#settledIn(namespace));
  }

  #settledIn(namespace: string): number {
    return this.#apart.get(namespace) ?? this.#settled;
  }

  /** `known` is when it is known to have been there: at its newest version at the least. */
  #end(timeline: Timeline<S>, known: number, finish: (latest: number) => void): void {
    const present = Math.max(known, timeline.versionAt);
    const latest = this.#rules.billedUntil?.(present) ?? present;
    const before = timeline.spans;
    wholly(timeline, () => finish(latest));
    if ((timeline.spans.at(-1)?.to ?? 0) > latest) enter(timeline, undefined, latest);
    this.#rememberBilled(timeline, before);
    timeline.finished = true;
    timeline.gone = true;
    timeline.dirty = true;
  }
}
