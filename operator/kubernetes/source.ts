/** A Kubernetes API resource; a namespace narrows it to that namespace. */
export interface ApiResource {
  /** `''` for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly namespace?: string;
}

/** An object as the API server sent it. Its shape is unverified until a projection reads it. */
export type RawObject = Readonly<Record<string, unknown>>;

/** The fields of an object that this package uses. Projections add their own. */
export interface Projected {
  readonly uid: string;
  /** `''` for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
}

/** Selects the needed fields of a raw object; undefined for an object to ignore. Must not throw. */
export type Projection<T extends Projected> = (object: RawObject) => T | undefined;

/** When and how a change arrived. */
export interface Arrival {
  /** Wall clock at arrival, milliseconds since the epoch. */
  readonly at: number;
  /**
   * Wall clock when the previous version was last known to be current: the last event or successful
   * list before this change. Never too late; some seconds too early where events may have been
   * delayed together. 0 when nothing is known, as for a first list.
   */
  readonly knownUntil: number;
  /**
   * True when a list brought the change, not a watch event. It may have happened any time since
   * `knownUntil`.
   */
  readonly late: boolean;
  /** When the change happened, for an event that may be old on a resumed watch; else absent. */
  readonly happened?: Bracket;
}

/** An unknown moment between two times, both included; wall clock, milliseconds. */
export interface Bracket {
  readonly from: number;
  readonly until: number;
}

/**
 * When a change happened: at its arrival if a live watch brought it, else at an unknown moment in
 * between (docs/explanation/gaps.md#changes-that-nobody-saw).
 */
export function happenedBetween({ at, knownUntil, late, happened }: Arrival): Bracket {
  if (late) return { from: Math.min(knownUntil, at), until: at };
  return happened ?? { from: at, until: at };
}

/** Receives every change synchronously, in order. Exceptions are logged; the watch goes on. */
export interface SourceHandler<T extends Projected> {
  upserted(next: T, previous: T | undefined, arrival: Arrival): void;
  /** `last` is the final version: from the DELETED event, or the last one seen. */
  deleted(last: T, arrival: Arrival): void;
}

/**
 * State of a source's view:
 * - `starting`: not listed yet.
 * - `synced`: the view is complete and being watched.
 * - `absent`: the API server does not serve the resource (404 on the group or resource).
 * - `failing`: the view shows the state at the last contact with the API server.
 */
export type SourceState = 'starting' | 'synced' | 'absent' | 'failing';

export interface SourceHealth {
  readonly state: SourceState;
  /** Wall clock when the state began. */
  readonly since: number;
  /** Wall clock of the last list, event or bookmark; 0 before the first. */
  readonly freshAt: number;
  /**
   * Wall clock when the view became complete, at the start or after a failure. Until then other
   * writers may have been cut off from the API, too. For failures close together the first return
   * counts. Absent before the first return.
   */
  readonly returnedAt?: number;
  /**
   * Intervals that no watch covered, oldest first; a list followed each. Objects that came and went
   * within one are unknown. `from` is 0 when nothing was known before. Absent when there are none.
   */
  readonly unseen?: readonly Bracket[];
  /** Why it is failing; never carries a secret. */
  readonly reason?: string;
}

/** A live, projected view of one resource. */
export interface Source<T extends Projected> {
  readonly resource: ApiResource;
  /** One source for each namespace, when namespaces are watched separately. */
  readonly members?: readonly Source<T>[];
  /** Lists and watches until the signal is aborted; never rejects for the API server's faults. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when the first list is complete, or the resource is known to be absent. */
  ready(signal: AbortSignal): Promise<void>;
  health(): SourceHealth;
  readonly size: number;
  values(): IterableIterator<T>;
  find(namespace: string, name: string): T | undefined;
  /** Version from which a restart may resume watching. */
  resourceVersion(): string | undefined;
}
