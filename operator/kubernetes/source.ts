/** A Kubernetes API resource; a namespace narrows it to that namespace. */
export interface ApiResource {
  /** `''` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace?: string;
}

/** An object as the API server sent it; nothing about its shape is believed until a projection has looked. */
export type RawObject = Readonly<Record<string, unknown>>;

/** The few fields of an object that the engine keeps. Projections add their own. */
export interface Projected {
  readonly uid: string;
  /** `''` for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/** Takes what is needed out of a raw object at the door; undefined means "not of interest". Must not throw. */
export type Projection<T extends Projected> = (object: RawObject) => T | undefined;

/** When and how a change was learnt. */
export interface Arrival {
  /** Wall clock at arrival, milliseconds since the epoch. */
  readonly at: number;
  /**
   * Wall clock when the previous version was last known to hold: the last event or successful list
   * before this change. Never too late, but some seconds too early where events may have been held
   * up together; 0 when nothing is known, as for a first list.
   */
  readonly knownUntil: number;
  /** True when a relist, not a watch event, brought the change: it may have happened any time since `knownUntil`. */
  readonly late: boolean;
  /** When the change came about, where a watch that was resumed told it; absent where a live one did, or a list. */
  readonly happened?: Bracket;
}

/** A moment lies between these two, both included; wall clock, milliseconds. */
export interface Bracket {
  readonly from: number;
  readonly until: number;
}

/**
 * When a change came about: at its arrival where a live watch told it, else at some moment that nobody
 * saw (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export function happenedBetween({ at, knownUntil, late, happened }: Arrival): Bracket {
  if (late) return { from: Math.min(knownUntil, at), until: at };
  return happened ?? { from: at, until: at };
}

/** Is called with every change, in order, synchronously. An exception is logged and never reaches the watch loop. */
export interface SourceHandler<T extends Projected> {
  upserted(next: T, previous: T | undefined, arrival: Arrival): void;
  /** `last` is the final version, as the DELETED event carried it or as it was last seen. */
  deleted(last: T, arrival: Arrival): void;
}

/**
 * `starting`: not listed yet. `synced`: the view is whole and being watched. `absent`: the API server
 * does not serve the resource (404 on the group or resource). `failing`: the view is as it was when the API server was last heard of.
 */
export type SourceState = 'starting' | 'synced' | 'absent' | 'failing';

export interface SourceHealth {
  readonly state: SourceState;
  /** Wall clock since when the state holds. */
  readonly since: number;
  /** How fresh the view is: wall clock of the last list, event or bookmark; 0 before the first. */
  readonly freshAt: number;
  /**
   * Wall clock when the view became whole, at the start or again after a failure: whoever writes to the
   * API may have been cut off until then as well. Of failures that follow each other closely the first
   * return counts. Absent before the first, and where nobody was cut off.
   */
  readonly returnedAt?: number;
  /**
   * Stretches that no watch covered, oldest first; a list followed each. Objects that came and went within one
   * are unknown. `from` is 0 where nothing was known before. Absent where there are none.
   */
  readonly unseen?: readonly Bracket[];
  /** Why it is failing; never carries a secret. */
  readonly reason?: string;
}

/** A live, projected view of one resource, kept by one watch. */
export interface Source<T extends Projected> {
  readonly resource: ApiResource;
  /** One for each namespace, where it is watched by namespaces. */
  readonly members?: readonly Source<T>[];
  /** Lists and watches until the signal is aborted; never rejects for anything the API server does. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when the first list is in, or the resource is known to be absent. */
  ready(signal: AbortSignal): Promise<void>;
  health(): SourceHealth;
  readonly size: number;
  values(): IterableIterator<T>;
  find(namespace: string, name: string): T | undefined;
  /** Where a restart may resume watching. */
  resourceVersion(): string | undefined;
}
