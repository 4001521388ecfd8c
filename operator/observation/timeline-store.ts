import {
  type Arrival,
  type Bracket,
  happenedBetween,
  type Projected,
} from '../kubernetes/source.ts';
import { atOnce } from '../model/at-once.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import {
  agreeBefore,
  endedByEvent,
  enter,
  joinedAt,
  type Span,
  spansAfter,
  type Timeline,
  wholly,
  widthOf,
} from './timeline.ts';
import { type Heard, HeardVersions, timesOf } from './heard-versions.ts';
import { encodeJson } from './journal-text.ts';
import { createTracked, TimelineIndex } from './timeline-index.ts';
import type {
  Drained,
  Observed,
  SettledPart,
  TimelineRules,
  Timelines,
  Tracked,
} from './timelines.ts';

/** How long a timeline whose object is gone is kept, so that a tenant cluster found late still gets it. */
const GONE_KEPT_MS = 120_000;

/** How far back state changes of a live object are kept for late facts. */
const SPANS_KEPT_MS = 600_000;

export interface TimelinesOptions {
  /** Is told of API times that were moved. */
  readonly countClamped?: (() => void) | undefined;
  /** Another process writes the journal until this one goes on from it ({@link Timelines.adopt}). */
  readonly standsBy?: boolean | undefined;
}

/** A live view of what each object was, from when to when. */
export function createTimelines<T extends Observed, S>(
  rules: TimelineRules<T, S>,
  { countClamped = () => undefined, standsBy = false }: TimelinesOptions = {},
): Timelines<T, S> {
  return new TimelineStore(rules, countClamped, standsBy ? new HeardVersions() : undefined);
}

class TimelineStore<T extends Observed, S> implements Timelines<T, S> {
  readonly #rules: TimelineRules<T, S>;
  readonly #countClamped: () => void;
  readonly #index = new TimelineIndex<T, S>();
  readonly #late = new Set<Tracked<T, S>>();
  readonly #removed = new Set<string>();
  /** Those that are `dirty`: a few of a great many. */
  readonly #dirty = new Set<Tracked<T, S>>();
  /** Those that are gone, or of which something has ended: {@link settle} forgets it some time. */
  readonly #passing = new Set<Tracked<T, S>>();
  #settled = -Infinity;
  /** Without a journal nobody knows what closed windows billed of the objects of the first list. */
  #pastKnown = false;
  /** Up to where namespaces are settled that are apart. */
  readonly #apart = new Map<string, number>();
  /** Undefined where nobody else writes the journal. */
  #heard: HeardVersions<T, S> | undefined;

  constructor(
    rules: TimelineRules<T, S>,
    countClamped: () => void,
    heard: HeardVersions<T, S> | undefined,
  ) {
    this.#rules = rules;
    this.#countClamped = countClamped;
    this.#heard = heard;
  }

  get kind(): string {
    return this.#rules.kind;
  }

  get size(): number {
    return this.#index.size;
  }

  has(object: Projected): boolean {
    return this.#index.find(object) !== undefined;
  }

  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined {
    return this.#index.find(object);
  }

  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]> {
    return this.#index.namespaces();
  }

  inNamespace(namespace: string): Iterable<Timeline<S>> {
    return this.#index.inNamespace(namespace);
  }

  lastChange(namespace: string): number {
    return this.#index.lastChange(namespace);
  }

  late(): Iterable<Timeline<S>> {
    return this.#late;
  }

  upserted(next: T, _previous: T | undefined, arrival: Arrival): void {
    this.#hear(next, { kind: 'version', view: next, arrival }, () => this.#see(next, arrival));
  }

  deleted(last: T, arrival: Arrival): void {
    this.#hear(last, { kind: 'deleted', view: last, arrival }, () => this.#delete(last, arrival));
  }

  #delete(last: T, arrival: Arrival): void {
    const known = arrival.late ? this.#index.find(last) : undefined;
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
    if (only === undefined) this.#heard?.settle(boundary);
    for (const timeline of this.#late) {
      if (!isSettled(timeline.namespace)) continue;
      timeline.billed = undefined;
      // The journal may know it as late: after a restart it would be settled once more.
      this.#noteDirty(timeline);
      this.#late.delete(timeline);
    }
    const kept = Math.min(boundary, keptFrom);
    const horizon = kept - GONE_KEPT_MS;
    for (const timeline of this.#passing) {
      if (!isSettled(timeline.namespace)) continue;
      if (timeline.gone && this.#rules.isNeeded?.(timeline.view, horizon) === true) continue;
      const before = timeline.spans;
      timeline.spans = spansAfter(before, kept - SPANS_KEPT_MS);
      if (timeline.spans !== before) this.#index.noteChange(timeline.namespace);
      const last = timeline.spans.at(-1);
      if (timeline.gone && (last?.to ?? timeline.versionAt) <= horizon) this.#drop(timeline);
      else if (!isPassing(timeline)) this.#passing.delete(timeline);
    }
  }

  setApart(namespace: string, settled: number): void {
    this.#apart.set(namespace, settled);
  }

  rejoin(namespace: string): void {
    this.#apart.delete(namespace);
  }

  *changed(settledAt?: number): Iterable<Tracked<T, S>> {
    let left = this.#dirty.size;
    for (const timeline of this.#dirty) {
      if (left === 0) break;
      left -= 1;
      yield settledAt === undefined ? timeline : asSettled(timeline, settledAt);
    }
    if (settledAt === undefined) return;
    const late = [...this.#late].filter((timeline) => !this.#dirty.has(timeline));
    for (const timeline of late) yield asSettled(timeline, settledAt);
  }

  drain(limit = Infinity): Drained<T, S> {
    const changed: Tracked<T, S>[] = [];
    for (const timeline of this.changed()) {
      if (changed.length >= limit) break;
      changed.push(timeline);
      timeline.dirty = false;
      this.#dirty.delete(timeline);
    }
    const removed = [...this.#removed];
    this.#removed.clear();
    return { changed, removed };
  }

  putBack({ changed, removed }: Drained<T, S>): void {
    for (const timeline of changed) {
      if (this.#index.find(timeline) === timeline) this.#noteDirty(timeline);
    }
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

  adopt(written: Iterable<Tracked<T, S>> | undefined, settled: number): void {
    const heard = this.#heard;
    this.#heard = undefined;
    this.#apart.clear();
    // What a first list that is not in yet brings was billed by whoever closed windows.
    if (written !== undefined || this.#pastKnown) {
      this.#settled = settled;
      this.#pastKnown = true;
    }
    const unwritten = new Set(this.#index.all());
    for (const journalled of written ?? []) {
      const own = this.#index.find(journalled);
      if (own === undefined) {
        this.restore([journalled], settled);
        continue;
      }
      unwritten.delete(own);
      const since = heard?.since(own, journalled) ?? { at: 0, heard: [] };
      const [next] = since.heard;
      if (next !== undefined && timesOf(next).at < journalled.versionAt) {
        // The other one lagged: it was told of this version later than this process of the next.
        this.#goOnAt(since.at, own, journalled, settled);
        continue;
      }
      this.#goOnFrom(own, journalled);
      for (const each of since.heard) this.#hearAgain(own, each);
    }
    const long = settled - GONE_KEPT_MS;
    for (const own of unwritten) {
      const { spans, gone, versionAt } = own;
      if (gone && (spans.at(-1)?.to ?? versionAt) <= long) {
        this.#drop(own);
        continue;
      }
      this.#noteDirty(own);
      if (written === undefined) continue;
      const [first = { from: Infinity }] = spans;
      // An older one was billed, and could not be written.
      if (first.from >= settled || first.from <= long) continue;
      own.billed = [];
      this.#late.add(own);
    }
  }

  discard(uids: Iterable<string>): void {
    for (const uid of uids) this.#removed.add(uid);
  }

  forget(): void {
    for (const timeline of this.#index.all()) this.#heard?.forget(timeline);
    this.#index.clear();
    this.#late.clear();
    this.#dirty.clear();
    this.#passing.clear();
  }

  refresh(at: number): void {
    atOnce(this.refreshing(() => at));
  }

  *refreshing(now: () => number): Generator<void, void> {
    let left = this.#index.size;
    for (const timeline of this.#index.all()) {
      if (left === 0) return;
      left -= 1;
      if (timeline.gone) continue;
      const at = now();
      this.#hear(timeline, { kind: 'read', at }, () => this.#readAnew(timeline, at));
      yield;
    }
  }

  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt = knownUntil,
    isListed: (namespace: string) => boolean = () => true,
  ): void {
    for (const timeline of this.#index.all()) {
      if (timeline.gone || !isListed(timeline.namespace) || holds(timeline)) continue;
      const heard = { kind: 'missed', known: knownUntil, listedAt } as const;
      this.#hear(timeline, heard, () => this.#miss(timeline, heard));
    }
    this.#pastKnown = true;
  }

  /** Takes in what is told of an object, and keeps it for as long as somebody else may not have written it. */
  #hear(object: Projected, heard: Heard<T>, takeIn: () => void): void {
    const before = this.#heard && this.#index.find(object);
    const was = before && { ...before };
    takeIn();
    const timeline = this.#heard && this.#index.find(object);
    if (timeline !== undefined) this.#heard?.note(timeline, heard, was);
  }

  /** What was heard by this process goes on where another one has stopped. */
  #hearAgain(timeline: Tracked<T, S>, heard: Heard<T>): void {
    if (heard.kind === 'version') this.#see(heard.view, heard.arrival);
    else if (timeline.gone) return;
    else if (heard.kind === 'deleted') this.#delete(heard.view, heard.arrival);
    else if (heard.kind === 'missed') this.#miss(timeline, heard);
    else this.#readAnew(timeline, heard.at);
  }

  /** A list does not have it. */
  #miss(
    timeline: Tracked<T, S>,
    { known, listedAt }: { readonly known: number; readonly listedAt: number },
  ): void {
    this.#end(timeline, this.#lastKnown(timeline, known), (latest) =>
      enter(timeline, undefined, latest, Math.max(0, listedAt - latest)),
    );
  }

  #readAnew(timeline: Tracked<T, S>, at: number): void {
    // Settings hold from their change on, whatever times the object gives.
    const { versionAt } = timeline;
    timeline.versionAt = at;
    this.#see(timeline.view, { at, knownUntil: at, late: false });
    // The object was not seen again: it may be gone since.
    timeline.versionAt = versionAt;
  }

  /** The timeline is what another process has written of it. */
  #goOnFrom(own: Tracked<T, S>, written: Tracked<T, S>): void {
    const { spans, billed, versionAt, finished, gone, view } = written;
    const before = own.spans;
    this.#late.delete(own);
    this.#dirty.delete(own);
    const kept = sameText(own.view, view) ? own.view : view;
    Object.assign(own, { spans, billed, versionAt, finished, gone, dirty: false, view: kept });
    if (billed !== undefined) this.#late.add(own);
    this.#noteSpans(own, before);
  }

  /** The timeline is what another process has written of the time before `at`, and is right from then on. */
  #goOnAt(at: number, own: Tracked<T, S>, written: Tracked<T, S>, settled: number): void {
    const before = own.spans;
    own.spans = joinedAt(written.spans, before, at, sameText);
    const billed = written.billed ?? written.spans;
    const isBilled = agreeBefore(billed, own.spans, settled, sameText);
    own.billed = isBilled ? undefined : billed;
    if (isBilled) this.#late.delete(own);
    else this.#late.add(own);
    this.#noteSpans(own, before);
    this.#noteDirty(own);
  }

  #keep(timeline: Tracked<T, S>): void {
    this.#index.add(timeline);
    this.#removed.delete(timeline.uid);
    if (timeline.dirty) this.#dirty.add(timeline);
    if (isPassing(timeline)) this.#passing.add(timeline);
  }

  #drop(timeline: Tracked<T, S>): void {
    this.#index.remove(timeline);
    this.#dirty.delete(timeline);
    this.#passing.delete(timeline);
    this.#heard?.forget(timeline);
    this.#removed.add(timeline.uid);
  }

  #see(next: T, arrival: Arrival): Tracked<T, S> {
    const known = this.#index.find(next);
    const timeline = known ?? createTracked<T, S>(next, arrival.at);
    const seen = this.#sighting(timeline, next, arrival, known === undefined);
    const before = timeline.spans;
    wholly(timeline, () => this.#rules.follow(timeline, next, seen));
    if (known === undefined) this.#keep(timeline);
    // It was not of interest for a while, as a Service whose type changed to and fro.
    timeline.gone = false;
    this.#noteSpans(timeline, before);
    this.#rememberBilled(timeline, before);
    // A list shows what is so now, a resumed watch what was so then.
    timeline.versionAt = arrival.late ? arrival.at : seen.from;
    timeline.view = next;
    this.#noteDirty(timeline);
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
  #rememberBilled(timeline: Tracked<T, S>, before: readonly Span<S>[]): void {
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
  #end(timeline: Tracked<T, S>, known: number, finish: (latest: number) => void): void {
    const present = Math.max(known, timeline.versionAt);
    const latest = this.#rules.billedUntil?.(present) ?? present;
    const before = timeline.spans;
    wholly(timeline, () => finish(latest));
    if ((timeline.spans.at(-1)?.to ?? 0) > latest) enter(timeline, undefined, latest);
    this.#rememberBilled(timeline, before);
    timeline.finished = true;
    timeline.gone = true;
    this.#noteSpans(timeline, before);
    this.#noteDirty(timeline);
  }

  /** To be called when they may have been replaced, or the object is gone. */
  #noteSpans(timeline: Tracked<T, S>, before: readonly Span<S>[]): void {
    if (timeline.spans !== before) this.#index.noteChange(timeline.namespace);
    if (isPassing(timeline)) this.#passing.add(timeline);
  }

  #noteDirty(timeline: Tracked<T, S>): void {
    timeline.dirty = true;
    this.#dirty.add(timeline);
  }
}

function sameText(one: unknown, other: unknown): boolean {
  return encodeJson(one) === encodeJson(other);
}

/** Whether something of it is to be forgotten once it is long ago. */
function isPassing({ gone, spans }: Timeline<unknown>): boolean {
  const [first] = spans;
  return gone || (first !== undefined && first.to < Infinity);
}

/** As it will be when a window with that end is closed. */
function asSettled<T extends Projected, S>(
  timeline: Tracked<T, S>,
  settledAt: number,
): Tracked<T, S> {
  const spans = spansAfter(timeline.spans, settledAt - SPANS_KEPT_MS);
  return { ...timeline, spans, billed: undefined };
}
