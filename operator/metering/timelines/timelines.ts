import {
  type Arrival,
  type Bracket,
  happenedBetween,
  type Projected,
  type SourceHandler,
} from '../../kubernetes/source.ts';
import { atOnce } from '../../model/at-once.ts';
import { createTracked, StoredTimelines, type UnwrittenTimelines } from './stored-timelines.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import { agreeBefore, enter, type Span, type Timeline, atomically, widthOf } from './timeline.ts';
import type { Observed, SettledScope, TimelineRules, Tracked } from './timeline-rules.ts';

interface TimelinesOptions {
  /** Called for each API time that was moved into the possible range. */
  readonly countClamped?: (() => void) | undefined;
}

/** The timelines of one kind of object, kept up to date by its watch. */
export class Timelines<T extends Observed, S> implements SourceHandler<T> {
  readonly #rules: TimelineRules<T, S>;
  readonly #stored = new StoredTimelines<T, S>();
  /** End of the last closed window, milliseconds since the epoch; -Infinity without one. */
  #settledUntil = -Infinity;
  /** Up to when the windows of the separate namespaces are closed. */
  readonly #separate = new Map<string, number>();
  /** False until the first list if there is no journal: what closed windows billed is unknown. */
  #isPastKnown = false;
  readonly #countClamped: () => void;

  constructor(
    rules: TimelineRules<T, S>,
    { countClamped = () => undefined }: TimelinesOptions = {},
  ) {
    this.#rules = rules;
    this.#countClamped = countClamped;
  }

  /** Name of the kind in the journal. */
  get kind(): string {
    return this.#rules.kind;
  }

  /** Changes that the journal does not have yet. */
  get unwritten(): UnwrittenTimelines<T, S> {
    return this.#stored.unwritten;
  }

  get size(): number {
    return this.#stored.index.size;
  }

  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined {
    return this.#stored.index.find(object);
  }

  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]> {
    return this.#stored.index.namespaces();
  }

  inNamespace(namespace: string): Iterable<Timeline<S>> {
    return this.#stored.index.inNamespace(namespace);
  }

  late(): Iterable<Timeline<S>> {
    return this.#stored.late();
  }

  upserted(next: T, _previous: T | undefined, arrival: Arrival): void {
    this.#see(next, arrival);
  }

  /** Ends the timeline of a gone object; `last` is its last version. */
  deleted(last: T, arrival: Arrival): void {
    const known = arrival.late ? this.#stored.index.find(last) : undefined;
    const timeline = known ?? this.#see(last, arrival);
    const seen = this.#sighting(timeline, last, arrival, false);
    this.#end(timeline, seen.from, (latest) => {
      if (this.#rules.finish === undefined) enter(timeline, undefined, latest, widthOf(seen));
      else this.#rules.finish(timeline, last, seen, latest);
    });
  }

  /**
   * Marks everything before `boundary` as billed, in `namespace` alone or outside all separate
   * namespaces. Forgets what no late fact can change any more.
   */
  settle(
    boundary: number,
    { namespace: only, retainedFrom: storedFrom = boundary }: SettledScope = {},
  ): void {
    if (only === undefined) this.#settledUntil = boundary;
    else this.#separate.set(only, boundary);
    const isSettled = (namespace: string): boolean =>
      only === undefined ? !this.#separate.has(namespace) : namespace === only;
    const isNeeded = (object: T, horizon: number): boolean =>
      this.#rules.isNeeded?.(object, horizon) ?? false;
    this.#stored.settle(isSettled, Math.min(boundary, storedFrom), isNeeded);
  }

  /** Closes the windows of a namespace separately from now on; they are closed up to `settled`. */
  separateNamespace(namespace: string, settled: number): void {
    this.#separate.set(namespace, settled);
  }

  /** Closes a namespace's windows with the others again; both must have reached the same end. */
  rejoin(namespace: string): void {
    this.#separate.delete(namespace);
  }

  /** Restores the timelines of the journal; `settled` is the end of the last closed window. */
  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void {
    for (const timeline of timelines) this.#stored.add(timeline);
    this.#settledUntil = settled;
    this.#isPastKnown = true;
  }

  /** Forgets everything; only before a window or the journal has used any of it. */
  forget(): void {
    this.#stored.clear();
  }

  /** Evaluates every live object again, after a change of the settings that the rules use. */
  refresh(at: number): void {
    atOnce(this.refreshing(() => at));
  }

  /**
   * As {@link refresh}, one object at a step, so that other work can run between. The result counts
   * from the `now` of that step. Objects that arrive meanwhile use the settings in force anyway.
   */
  *refreshing(now: () => number): Generator<void, void> {
    let left = this.#stored.index.size;
    for (const timeline of this.#stored.index.all()) {
      if (left === 0) return;
      left -= 1;
      if (timeline.gone) continue;
      this.#readAgain(timeline, now());
      yield;
    }
  }

  /**
   * Applies the first list; from now on it is known what closed windows billed.
   * 1. An object of the journal that is not in the list vanished unobserved. It is billed up to
   *    `knownUntil`, and may have gone at any moment until `listedAt`.
   * 2. `isListed` limits this to some namespaces.
   */
  listed(
    isPresent: (object: Projected) => boolean,
    knownUntil: number,
    listedAt = knownUntil,
    isListed: (namespace: string) => boolean = () => true,
  ): void {
    for (const timeline of this.#stored.index.all()) {
      if (timeline.gone || !isListed(timeline.namespace) || isPresent(timeline)) continue;
      this.#miss(timeline, { known: knownUntil, listedAt });
    }
    this.#isPastKnown = true;
  }
  /** Applies a version of an object; the first one creates its timeline. */
  #see(next: T, arrival: Arrival): Tracked<T, S> {
    const known = this.#stored.index.find(next);
    const timeline = known ?? createTracked<T, S>(next, arrival.at);
    const seen = this.#sighting(timeline, next, arrival, known === undefined);
    const before = timeline.spans;
    atomically(timeline, () => this.#rules.follow(timeline, next, seen));
    if (known === undefined) this.#stored.add(timeline);
    // An object can come back, such as a Service whose type changes to and fro.
    timeline.gone = false;
    this.#stored.noteSpans(timeline);
    this.#rememberBilled(timeline, before);
    // A list shows the state at its arrival, a resumed watch the state at the change.
    timeline.versionAt = arrival.late ? arrival.at : seen.from;
    timeline.view = next;
    this.#stored.unwritten.noteChanged(timeline);
    return timeline;
  }

  /** Ends an object that a list lacks: it existed at `known` and was gone at `listedAt`. */
  #miss(
    timeline: Tracked<T, S>,
    { known, listedAt }: { readonly known: number; readonly listedAt: number },
  ): void {
    this.#end(timeline, this.#lastKnown(timeline, known), (latest) =>
      enter(timeline, undefined, latest, Math.max(0, listedAt - latest)),
    );
  }

  /** Evaluates the newest version again by changed settings, which count from `at`. */
  #readAgain(timeline: Tracked<T, S>, at: number): void {
    // Settings count from their change on, whatever times the object has.
    const { versionAt } = timeline;
    timeline.versionAt = at;
    this.#see(timeline.view, { at, knownUntil: at, late: false });
    // The object was not observed again: it may be gone.
    timeline.versionAt = versionAt;
  }

  #sighting(timeline: Timeline<S>, object: T, arrival: Arrival, first: boolean): Sighting {
    const born = Math.max(object.createdAt, arrival.late ? arrival.knownUntil : 0);
    const notBefore = first ? born : timeline.versionAt;
    const dated = Math.min(this.#rules.datedAt?.(object) ?? object.createdAt, arrival.at);
    const bracket = this.#bracket(timeline, arrival, Math.max(notBefore, dated));
    return sightingOf(arrival, bracket, notBefore, first, this.#countClamped);
  }

  /**
   * Returns when the change of a version happened: after the previous version, after the begin of
   * the last span, and after the windows that were closed with complete data.
   */
  #bracket(timeline: Timeline<S>, arrival: Arrival, notBefore: number): Bracket {
    const happened = happenedBetween(arrival);
    const settled = this.#settledIn(timeline.namespace);
    const after = Math.max(happened.from, notBefore, settled);
    // The clock may have been set back since the previous version.
    const until = Math.max(happened.until, notBefore);
    const last = timeline.spans.at(-1);
    // A span without a known begin started at some moment up to its `from`.
    const began = last === undefined ? -Infinity : last.from - (last.uncertainFrom ?? 0);
    const from = Math.max(began, Math.min(after, until));
    return { from, until: Math.max(from, until) };
  }

  /** Remembers what was billed if a change reached back before the last closed window. */
  #rememberBilled(timeline: Tracked<T, S>, before: readonly Span<S>[]): void {
    if (timeline.spans === before || timeline.billed !== undefined) return;
    if (!this.#isPastKnown) return;
    if (agreeBefore(before, timeline.spans, this.#settledIn(timeline.namespace))) return;
    this.#stored.setBilled(timeline, before);
  }

  /**
   * Returns when a vanished object is last known to have existed. A window is closed only with
   * complete data, so what it billed stands.
   */
  #lastKnown({ namespace }: Projected, knownUntil: number): number {
    return Math.max(knownUntil, this.#settledIn(namespace));
  }

  /** Returns up to when the windows of a namespace are closed. */
  #settledIn(namespace: string): number {
    return this.#separate.get(namespace) ?? this.#settledUntil;
  }

  /** Ends a timeline. `known`: when the object last existed; never before its newest version. */
  #end(timeline: Tracked<T, S>, known: number, finish: (latest: number) => void): void {
    const present = Math.max(known, timeline.versionAt);
    const latest = this.#rules.billedUntil?.(present) ?? present;
    const before = timeline.spans;
    atomically(timeline, () => finish(latest));
    if ((timeline.spans.at(-1)?.to ?? 0) > latest) enter(timeline, undefined, latest);
    this.#rememberBilled(timeline, before);
    timeline.finished = true;
    timeline.gone = true;
    this.#stored.noteSpans(timeline);
    this.#stored.unwritten.noteChanged(timeline);
  }
}
