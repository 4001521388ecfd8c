import type { Projected, SourceHandler } from '../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';
import type { Timeline } from './timeline.ts';

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
  /** That of an object, gone or not. */
  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined;
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
   * The same of one object after the other, with time for others after each: what it means now holds from when it is
   * looked at, which `now` tells. Those that come meanwhile are read by the settings in force anyway.
   */
  refreshing(now: () => number): Generator<void, void>;
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
