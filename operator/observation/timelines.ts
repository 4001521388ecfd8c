import type { Arrival, Projected, SourceHandler } from '../kubernetes/source.ts';
import { type Sighting, sightingOf } from './sighting.ts';
import {
  createTimeline,
  enter,
  type Span,
  spansAfter,
  spansBefore,
  type Timeline,
} from './timeline.ts';

/** How one kind of object is followed. */
export interface TimelineRules<T extends Projected, S> {
  /** Names the kind in the journal. */
  readonly kind: string;
  createdAt(object: T): number;
  /** Brings a timeline up to date with a version of its object. */
  follow(timeline: Timeline<S>, next: T, seen: Sighting): void;
  /** The object is gone; nothing of it may be billed beyond `latest`. */
  finish(timeline: Timeline<S>, last: T, seen: Sighting, latest: number): void;
  /**
   * The moment up to which a vanished object is billed, given when it is known to have been there;
   * WATCH_DELETIONS=false makes it the last window end before (design 6).
   */
  readonly billedUntil?: (present: number) => number;
  /** True while a vanished object has to stay known for the sake of others that live on after `horizon`. */
  readonly isNeeded?: (object: T, horizon: number) => boolean;
}

/** A timeline with the newest version of its object, for the journal. */
export interface Tracked<T extends Projected, S> extends Timeline<S> {
  view: T;
}

/** The timelines of one kind of object, kept by the watch that it handles. */
export interface Timelines<T extends Projected, S> extends SourceHandler<T> {
  readonly kind: string;
  readonly size: number;
  /** By namespace, so that a window close touches each live object once. */
  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]>;
  inNamespace(namespace: string): Iterable<Timeline<S>>;
  /** Those whose billed past has changed since the last window was closed. */
  late(): Iterable<Timeline<S>>;
  /** Everything before `end` is billed as it stands; forgets what no late fact can change any more. */
  settle(end: number): void;
  /** Changes of timelines since the last call, for the journal; of `limit` timelines at most, the rest with later calls. */
  drain(limit?: number): {
    readonly changed: readonly Tracked<T, S>[];
    readonly removed: readonly string[];
  };
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
   * and the watch does not hold vanished unseen, and is billed until it was last known to be there.
   */
  listed(holds: (object: Projected) => boolean, knownUntil: number): void;
}

/** How long a timeline whose object is gone is kept, so that a tenant cluster found late still gets it. */
const GONE_KEPT_MS = 120_000;

/** How far back state changes of a live object are kept for late facts. */
const SPANS_KEPT_MS = 600_000;

/** A live view of what each object was, from when to when (design 6). `countClamped` is told of API times that were moved. */
export function createTimelines<T extends Projected, S>(
  rules: TimelineRules<T, S>,
  countClamped: () => void = () => undefined,
): Timelines<T, S> {
  const byNamespace = new Map<string, Map<string, Tracked<T, S>>>();
  const late = new Set<Timeline<S>>();
  const removed = new Set<string>();
  let size = 0;
  let settled = -Infinity;
  /** Without a journal nobody knows what closed windows billed of the objects of the first list. */
  let pastKnown = false;

  const find = (object: Projected): Tracked<T, S> | undefined =>
    byNamespace.get(object.namespace)?.get(object.uid);

  const keep = (timeline: Tracked<T, S>): void => {
    const timelines = byNamespace.get(timeline.namespace) ?? new Map<string, Tracked<T, S>>();
    byNamespace.set(timeline.namespace, timelines.set(timeline.uid, timeline));
    removed.delete(timeline.uid);
    size += 1;
  };

  const drop = (timeline: Timeline<S>): void => {
    const timelines = byNamespace.get(timeline.namespace);
    timelines?.delete(timeline.uid);
    if (timelines?.size === 0) byNamespace.delete(timeline.namespace);
    removed.add(timeline.uid);
    size -= 1;
  };

  /** Remembers what was billed when a change reaches back before the last closed window. */
  const changing = (timeline: Timeline<S>, change: () => void): void => {
    const before = timeline.spans;
    change();
    if (timeline.spans === before || timeline.billed !== undefined || !pastKnown) return;
    if (agreeBefore(before, timeline.spans, settled)) return;
    timeline.billed = before;
    late.add(timeline);
  };

  const sighting = (
    timeline: Timeline<S>,
    object: T,
    arrival: Arrival,
    first: boolean,
  ): Sighting => {
    const born = Math.max(rules.createdAt(object), arrival.late ? arrival.knownUntil : 0);
    return sightingOf(arrival, first ? born : timeline.versionAt, first, countClamped);
  };

  const see = (next: T, arrival: Arrival): Tracked<T, S> => {
    const known = find(next);
    const timeline = known ?? { ...createTimeline<S>(next, arrival.at), view: next };
    if (known === undefined) keep(timeline);
    // It was not of interest for a while, as a Service whose type changed to and fro.
    timeline.gone = false;
    const seen = sighting(timeline, next, arrival, known === undefined);
    changing(timeline, () => rules.follow(timeline, next, seen));
    timeline.versionAt = arrival.at;
    timeline.view = next;
    timeline.dirty = true;
    return timeline;
  };

  /**
   * When an object that vanished unseen is known to have been there. A window was closed only with all
   * of it seen, so that what was billed of it stands.
   */
  const lastKnown = (knownUntil: number): number => Math.max(knownUntil, settled);

  /** `known` is when it is known to have been there: at its newest version at the least. */
  const end = (timeline: Timeline<S>, known: number, finish: (latest: number) => void): void => {
    const present = Math.max(known, timeline.versionAt);
    const latest = rules.billedUntil?.(present) ?? present;
    changing(timeline, () => {
      finish(latest);
      if ((timeline.spans.at(-1)?.to ?? 0) > latest) enter(timeline, undefined, latest);
    });
    timeline.finished = true;
    timeline.gone = true;
    timeline.dirty = true;
  };

  return {
    kind: rules.kind,
    get size() {
      return size;
    },
    *namespaces() {
      for (const [namespace, timelines] of byNamespace) yield [namespace, timelines.values()];
    },
    inNamespace: (namespace) => byNamespace.get(namespace)?.values() ?? [],
    late: () => late,
    upserted: (next, _previous, arrival) => {
      see(next, arrival);
    },
    deleted: (last, arrival) => {
      const timeline = arrival.late ? (find(last) ?? see(last, arrival)) : see(last, arrival);
      const seen = sighting(timeline, last, arrival, false);
      const present = arrival.late ? lastKnown(arrival.knownUntil) : arrival.at;
      end(timeline, present, (latest) => rules.finish(timeline, last, seen, latest));
    },
    settle: (boundary) => {
      settled = boundary;
      for (const timeline of late) {
        timeline.billed = undefined;
        // The journal may know it as late: after a restart it would be settled once more.
        timeline.dirty = true;
      }
      late.clear();
      for (const timelines of byNamespace.values()) {
        for (const timeline of timelines.values()) {
          const horizon = boundary - GONE_KEPT_MS;
          if (timeline.gone && rules.isNeeded?.(timeline.view, horizon) === true) continue;
          timeline.spans = spansAfter(timeline.spans, boundary - SPANS_KEPT_MS);
          const last = timeline.spans.at(-1);
          if (timeline.gone && (last?.to ?? timeline.versionAt) <= horizon) {
            drop(timeline);
          }
        }
      }
    },
    drain: (limit = Infinity) => {
      const changed: Tracked<T, S>[] = [];
      for (const timelines of byNamespace.values()) {
        for (const timeline of timelines.values()) {
          if (!timeline.dirty) continue;
          if (changed.length >= limit) break;
          changed.push(timeline);
          timeline.dirty = false;
        }
        if (changed.length >= limit) break;
      }
      const uids = [...removed];
      removed.clear();
      return { changed, removed: uids };
    },
    restore: (timelines, boundary) => {
      for (const timeline of timelines) {
        keep(timeline);
        if (timeline.billed !== undefined) late.add(timeline);
      }
      settled = boundary;
      pastKnown = true;
    },
    discard: (uids) => {
      for (const uid of uids) removed.add(uid);
    },
    forget: () => {
      byNamespace.clear();
      late.clear();
      size = 0;
    },
    refresh: (at) => {
      for (const timelines of byNamespace.values()) {
        for (const timeline of timelines.values()) {
          if (timeline.gone) continue;
          // Settings hold from their change on, whatever times the object gives.
          timeline.versionAt = at;
          see(timeline.view, { at, knownUntil: at, late: false });
        }
      }
    },
    listed: (holds, knownUntil) => {
      for (const timelines of byNamespace.values()) {
        for (const timeline of timelines.values()) {
          if (timeline.gone || holds(timeline)) continue;
          end(timeline, lastKnown(knownUntil), (latest) => enter(timeline, undefined, latest));
        }
      }
      pastKnown = true;
    },
  };
}

function agreeBefore<S>(a: readonly Span<S>[], b: readonly Span<S>[], at: number): boolean {
  const left = spansBefore(a, at);
  const right = spansBefore(b, at);
  if (left.length !== right.length) return false;
  return left.every((span, index) => {
    const other = right[index];
    return (
      other !== undefined &&
      span.from === other.from &&
      span.to === other.to &&
      span.state === other.state
    );
  });
}
