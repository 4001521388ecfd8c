import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import type { QueuedArrivals } from './live-view.ts';
import type { ReflectorMetrics } from './metrics.ts';
import type { ApiResource, Projected, Projection, RawObject, SourceHandler } from './source.ts';

/** State that a stopped process saved; the next process resumes the watch from it. */
export interface ResumePoint<T> {
  /** Undefined when only the objects are known: a fresh list is compared with them. */
  readonly resourceVersion?: string;
  readonly objects: Iterable<T>;
  /** Wall clock at which the objects were last known to be current; 0 when unknown. */
  readonly knownAt?: number;
}

/** Timing of a reflector, milliseconds. */
export interface ReflectorTimings {
  /** The server ends each watch after a random time in this range. */
  readonly watchMin: number;
  readonly watchMax: number;
  readonly inactivity: number;
  readonly backoffBase: number;
  readonly backoffCap: number;
  /** Between comparisons of the view with an exact list, ± 20 %. */
  readonly comparison: number;
  /** Between checks whether an absent resource has appeared. */
  readonly absentProbe: number;
  /** How long a resumed watch may deliver its backlog before the view counts as complete. */
  readonly resumeSettling: number;
}

/** Dependencies of code that watches an API server. */
export interface WatchMeans {
  readonly connection: Pick<Connection, 'request' | 'stream'>;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
}

export interface ReflectorOptions<T extends Projected> extends WatchMeans {
  readonly resource: ApiResource;
  /**
   * Versions are compared by the structure of their projection; only differences are reported. A
   * projection that hides content (private fields) must include the resourceVersion.
   */
  readonly project: Projection<T>;
  /** Returns false to ignore the object and keep the previous version. */
  readonly accepts?: (object: RawObject) => boolean;
  readonly handlers: readonly SourceHandler<T>[];
  /** Queues the changes for the handlers; without it they are called at once. */
  readonly arrivals?: QueuedArrivals;
  readonly metrics?: ReflectorMetrics;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Objects requested per page. Set it for a server that is not trusted to send no more. */
  readonly pageSize?: number;
  readonly resume?: ResumePoint<T>;
  readonly timings?: Partial<ReflectorTimings>;
}

export const DEFAULT_TIMINGS: ReflectorTimings = {
  watchMin: 300_000,
  watchMax: 600_000,
  inactivity: 90_000,
  backoffBase: 200,
  backoffCap: 30_000,
  comparison: 600_000,
  absentProbe: 30_000,
  resumeSettling: 1_000,
};
