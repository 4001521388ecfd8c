import {
  type Arrival,
  type Bracket,
  happenedBetween,
  type Projected,
  type SourceHandler,
} from '../../kubernetes/source.ts';
import { atOnce } from '../../model/at-once.ts';
import { createTracked, StoredTimelines, type UnwrittenTimelines } from './stored-timelines.ts';
import { SettledUntil } from './settled-until.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import { agreeBefore, enter, type Span, type Timeline, wholly, widthOf } from './timeline.ts';
import type { Observed, SettledPart, TimelineRules, Tracked } from './timeline-rules.ts';

interface TimelinesOptions {
  /** Is called for each API time that was moved. */
  readonly countClamped?: (() => void) | undefined;
}

/** What each object of one kind was, from when to when. Its watch brings it up to date. */
export class Timelines<T extends Observed, S> implements SourceHandler<T> {
  readonly #rules: TimelineRules<T, S>;
  readonly #stored = new StoredTimelines<T, S>();
  readonly #settled = new SettledUntil();
  readonly #countClamped: () => void;

  constructor(
    rules: TimelineRules<T, S>,
    { countClamped = () => undefined }: TimelinesOptions = {},
  ) {
    this.#rules = rules;
    this.#countClamped = countClamped;
  }

  /** Names the kind in the journal. */
  get kind(): string {
    return this.#rules.kind;
  }

  /** What the journal does not have yet. */
  get unwritten(): UnwrittenTimelines<T, S> {
    return this.#stored.unwritten;
  }

  get size(): number {
    return this.#stored.index.size;
  }

  /** Whether it has a timeline, gone or not. */
  has(object: Projected): boolean {
    return this.#stored.index.find(object) !== undefined;
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

  /** The object is gone; `last` is its last version. */
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
   * Everything before `boundary` is billed as it stands, outside of namespaces that are apart; forgets what
   * no late fact can change any more.
   */
  settle(
    boundary: number,
    { namespace: only, retainedFrom: storedFrom = boundary }: SettledPart = {},
  ): void {
    const isSettled = this.#settled.settle(boundary, only);
    const isNeeded = (object: T, horizon: number): boolean =>
      this.#rules.isNeeded?.(object, horizon) ?? false;
    this.#stored.settle(isSettled, Math.min(boundary, storedFrom), isNeeded);
  }

  /** The windows of a namespace are closed apart from now on; they are closed up to `settled`. */
  setApart(namespace: string, settled: number): void {
    this.#settled.setSeparate(namespace, settled);
  }

  /** They are closed with the others again: both have got to the same end. */
  rejoin(namespace: string): void {
    this.#settled.rejoin(namespace);
  }

  /** Puts back the timelines of the journal; `settled` is the end of the last closed window. */
  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void {
    for (const timeline of timelines) this.#stored.add(timeline);
    this.#settled.restore(settled);
  }

  /** Forgets all there is; only for what neither a window nor the journal has made use of. */
  forget(): void {
    this.#stored.clear();
  }

  /** Follows every live object again: settings that the rules depend on have changed. */
  refresh(at: number): void {
    atOnce(this.refreshing(() => at));
  }

  /**
   * The same of one object after the other, with time for others after each. What it means now holds from the moment
   * `now` at which it is read. Those that come meanwhile are read by the settings in force anyway.
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
   * The first list is in: from here on it is known what closed windows billed. What the journal knew
   * and the watch does not hold vanished unseen, and is billed until it was last known to be there;
   * it may have gone at any moment until `listedAt`. With `isListed` only that of some namespaces.
   */
  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt = knownUntil,
    isListed: (namespace: string) => boolean = () => true,
  ): void {
    for (const timeline of this.#stored.index.all()) {
      if (timeline.gone || !isListed(timeline.namespace) || holds(timeline)) continue;
      this.#miss(timeline, { known: knownUntil, listedAt });
    }
    this.#settled.notePast();
  }
  /** A version of an object, whose timeline begins with the first one. */
  #see(next: T, arrival: Arrival): Tracked<T, S> {
    const known = this.#stored.index.find(next);
    const timeline = known ?? createTracked<T, S>(next, arrival.at);
    const seen = this.#sighting(timeline, next, arrival, known === undefined);
    const before = timeline.spans;
    wholly(timeline, () => this.#rules.follow(timeline, next, seen));
    if (known === undefined) this.#stored.add(timeline);
    // It was not of interest for a while, as a Service whose type changed to and fro.
    timeline.gone = false;
    this.#stored.noteSpans(timeline);
    this.#rememberBilled(timeline, before);
    // A list shows what is so now, a resumed watch what was so then.
    timeline.versionAt = arrival.late ? arrival.at : seen.from;
    timeline.view = next;
    this.#stored.unwritten.noteChanged(timeline);
    return timeline;
  }

  /** A list does not have it: it is known to have been there at `known`, and was gone at `listedAt`. */
  #miss(
    timeline: Tracked<T, S>,
    { known, listedAt }: { readonly known: number; readonly listedAt: number },
  ): void {
    this.#end(timeline, this.#lastKnown(timeline, known), (latest) =>
      enter(timeline, undefined, latest, Math.max(0, listedAt - latest)),
    );
  }

  /** Reads the newest version again by other settings, which hold from `at` on. */
  #readAgain(timeline: Tracked<T, S>, at: number): void {
    // Settings hold from their change on, whatever times the object gives.
    const { versionAt } = timeline;
    timeline.versionAt = at;
    this.#see(timeline.view, { at, knownUntil: at, late: false });
    // The object was not seen again: it may be gone since.
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
   * When the change came about that a version tells: after the version before, after what began before
   * it, and after the windows that were closed with all of it seen.
   */
  #bracket(timeline: Timeline<S>, arrival: Arrival, notBefore: number): Bracket {
    const happened = happenedBetween(arrival);
    const settled = this.#settled.in(timeline.namespace);
    const after = Math.max(happened.from, notBefore, settled);
    // The clock may have been set back since the version before.
    const until = Math.max(happened.until, notBefore);
    const last = timeline.spans.at(-1);
    // What began without a time began at some moment, of which its own is the last.
    const began = last === undefined ? -Infinity : last.from - (last.unsureFrom ?? 0);
    const from = Math.max(began, Math.min(after, until));
    return { from, until: Math.max(from, until) };
  }

  /** Remembers what was billed where a change reached back before the last closed window. */
  #rememberBilled(timeline: Tracked<T, S>, before: readonly Span<S>[]): void {
    if (timeline.spans === before || timeline.billed !== undefined) return;
    if (!this.#settled.isPastKnown) return;
    if (agreeBefore(before, timeline.spans, this.#settled.in(timeline.namespace))) return;
    this.#stored.setBilled(timeline, before);
  }

  /**
   * When an object that vanished unseen is known to have been there. A window was closed only with all
   * of it seen, so that what was billed of it stands.
   */
  #lastKnown({ namespace }: Projected, knownUntil: number): number {
    return Math.max(knownUntil, this.#settled.in(namespace));
  }

  /** `known` is when it is known to have been there: at its newest version at the least. */
  #end(timeline: Tracked<T, S>, known: number, finish: (latest: number) => void): void {
    const present = Math.max(known, timeline.versionAt);
    const latest = this.#rules.billedUntil?.(present) ?? present;
    const before = timeline.spans;
    wholly(timeline, () => finish(latest));
    if ((timeline.spans.at(-1)?.to ?? 0) > latest) enter(timeline, undefined, latest);
    this.#rememberBilled(timeline, before);
    timeline.finished = true;
    timeline.gone = true;
    this.#stored.noteSpans(timeline);
    this.#stored.unwritten.noteChanged(timeline);
  }
}
