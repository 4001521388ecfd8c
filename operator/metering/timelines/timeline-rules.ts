import type { Projected } from '../../kubernetes/source.ts';
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
  follow(timeline: Timeline<S>, next: T, seen: Sighting): void;
  /** The newest time that a version itself says; it came about no earlier. */
  datedAt?(object: T): number;
  /** The object is gone; nothing of it may be billed beyond `latest`. By default it is billed up to there. */
  finish?(timeline: Timeline<S>, last: T, seen: Sighting, latest: number): void;
  /**
   * The moment up to which a vanished object is billed, given when it is known to have been there;
   * WATCH_DELETIONS=false makes it the last window end before (docs/explanation/metering.md#times).
   */
  readonly billedUntil?: (present: number) => number;
  /** True while a vanished object has to stay known for the sake of others that live on after `horizon`. */
  isNeeded?(object: T, horizon: number): boolean;
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

/** Timelines of one kind, as meters read them. */
export interface TimelineReader<S> {
  readonly size: number;
  /** That of an object, gone or not. */
  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined;
  /** By namespace, so that a window close touches each live object once. */
  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]>;
  inNamespace(namespace: string): Iterable<Timeline<S>>;
  /** Those whose billed past has changed since the last window was closed. */
  late(): Iterable<Timeline<S>>;
}

export interface SettledPart {
  /** The one namespace that is settled; it is apart. */
  readonly namespace?: string;
  /** What was there from here on is still needed, where others are not settled as far. */
  readonly retainedFrom?: number;
}
