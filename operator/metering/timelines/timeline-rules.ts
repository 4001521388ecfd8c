import type { Projected } from '../../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';
import type { Timeline } from './timeline.ts';

/** The fields of an object that every kind of timeline needs. */
export interface Observed extends Projected {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** The rules by which one kind of object is followed. */
export interface TimelineRules<T extends Observed, S> {
  /** Name of the kind in the journal. */
  readonly kind: string;
  /** Brings a timeline up to date with a version of its object. */
  follow(timeline: Timeline<S>, next: T, seen: Sighting): void;
  /** Returns the newest time in a version; its change happened no earlier. */
  datedAt?(object: T): number;
  /** Ends the timeline of an object that is gone, no later than `latest`; `latest` by default. */
  finish?(timeline: Timeline<S>, last: T, seen: Sighting, latest: number): void;
  /**
   * Returns up to when a gone object is billed, from when it was last known to exist.
   * WATCH_DELETIONS=false makes that the last window end before
   * (docs/explanation/metering.md#times).
   */
  readonly billedUntil?: (present: number) => number;
  /** True while a gone object must stay stored for other objects that exist after `horizon`. */
  isNeeded?(object: T, horizon: number): boolean;
}

/** A timeline with the newest version of its object, for the journal. */
export interface Tracked<T extends Projected, S> extends Timeline<S> {
  view: T;
}

/** What the journal has to write, and the uids that it has to forget. */
export interface Drained<T extends Projected, S> {
  readonly changed: readonly Tracked<T, S>[];
  readonly removed: readonly string[];
}

/** Timelines of one kind, as meters read them. */
export interface TimelineReader<S> {
  readonly size: number;
  /** Timeline of an object, gone or not. */
  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined;
  /** All timelines by namespace, so that closing a window visits each live object once. */
  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]>;
  inNamespace(namespace: string): Iterable<Timeline<S>>;
  /** Timelines whose billed past has changed since the last window was closed. */
  late(): Iterable<Timeline<S>>;
}

export interface SettledScope {
  /** The only namespace that is settled; it is closed separately. */
  readonly namespace?: string;
  /** What existed from here on stays stored, because other namespaces are not settled as far. */
  readonly retainedFrom?: number;
}
