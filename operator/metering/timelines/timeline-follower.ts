import {
  type Arrival,
  type Bracket,
  happenedBetween,
  type Projected,
} from '../../kubernetes/source.ts';
import { createTracked, type KeptTimelines } from './kept-timelines.ts';
import type { SettledUntil } from './settled-until.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import { agreeBefore, enter, type Span, type Timeline, wholly, widthOf } from './timeline.ts';
import type { Observed, TimelineRules, Tracked } from './timeline-rules.ts';

export interface TimelineFollowerOptions<T extends Observed, S> {
  readonly rules: TimelineRules<T, S>;
  readonly kept: KeptTimelines<T, S>;
  readonly settled: SettledUntil;
  /** Is told of API times that were moved. */
  readonly countClamped: () => void;
}

/** Brings timelines up to date with what is told of their objects. */
export class TimelineFollower<T extends Observed, S> {
  readonly #rules: TimelineRules<T, S>;
  readonly #kept: KeptTimelines<T, S>;
  readonly #settled: SettledUntil;
  readonly #countClamped: () => void;

  constructor({ rules, kept, settled, countClamped }: TimelineFollowerOptions<T, S>) {
    this.#rules = rules;
    this.#kept = kept;
    this.#settled = settled;
    this.#countClamped = countClamped;
  }

  /** A version of an object, whose timeline begins with the first one. */
  see(next: T, arrival: Arrival): Tracked<T, S> {
    const known = this.#kept.index.find(next);
    const timeline = known ?? createTracked<T, S>(next, arrival.at);
    const seen = this.#sighting(timeline, next, arrival, known === undefined);
    const before = timeline.spans;
    wholly(timeline, () => this.#rules.follow(timeline, next, seen));
    if (known === undefined) this.#kept.add(timeline);
    // It was not of interest for a while, as a Service whose type changed to and fro.
    timeline.gone = false;
    this.#kept.noteSpans(timeline);
    this.#rememberBilled(timeline, before);
    // A list shows what is so now, a resumed watch what was so then.
    timeline.versionAt = arrival.late ? arrival.at : seen.from;
    timeline.view = next;
    this.#kept.unwritten.noteChanged(timeline);
    return timeline;
  }

  /** The object is gone, of which this was the last version. */
  delete(last: T, arrival: Arrival): void {
    const known = arrival.late ? this.#kept.index.find(last) : undefined;
    const timeline = known ?? this.see(last, arrival);
    const seen = this.#sighting(timeline, last, arrival, false);
    this.#end(timeline, seen.from, (latest) => {
      if (this.#rules.finish === undefined) enter(timeline, undefined, latest, widthOf(seen));
      else this.#rules.finish(timeline, last, seen, latest);
    });
  }

  /** A list does not have it: it is known to have been there at `known`, and was gone at `listedAt`. */
  miss(
    timeline: Tracked<T, S>,
    { known, listedAt }: { readonly known: number; readonly listedAt: number },
  ): void {
    this.#end(timeline, this.#lastKnown(timeline, known), (latest) =>
      enter(timeline, undefined, latest, Math.max(0, listedAt - latest)),
    );
  }

  /** What it says is read anew, by other settings that hold from `at` on. */
  readAnew(timeline: Tracked<T, S>, at: number): void {
    // Settings hold from their change on, whatever times the object gives.
    const { versionAt } = timeline;
    timeline.versionAt = at;
    this.see(timeline.view, { at, knownUntil: at, late: false });
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
    this.#kept.setBilled(timeline, before);
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
    this.#kept.noteSpans(timeline);
    this.#kept.unwritten.noteChanged(timeline);
  }
}
