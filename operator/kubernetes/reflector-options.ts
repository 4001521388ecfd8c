import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import type { QueuedArrivals } from './live-view.ts';
import type { ReflectorMetrics } from './metrics.ts';
import type { ApiResource, Projected, Projection, RawObject, SourceHandler } from './source.ts';

/** What a stopped process knew: a restart watches on from there. */
export interface ResumePoint<T> {
  /** Undefined when only the objects are known: they are compared with a fresh list. */
  readonly resourceVersion?: string | undefined;
  readonly objects: Iterable<T>;
  /** Wall clock at which the objects were last known to hold; 0 when unknown. */
  readonly knownAt?: number;
}

/** Milliseconds. */
export interface ReflectorTimings {
  /** The server is asked to end each watch after a random time in this range. */
  readonly watchMin: number;
  readonly watchMax: number;
  readonly inactivity: number;
  readonly backoffBase: number;
  readonly backoffCap: number;
  /** Between comparisons of the view with an exact list, give or take a fifth. */
  readonly comparison: number;
  /** Between looks at whether an absent resource has appeared. */
  readonly absentProbe: number;
  /** How long a resumed watch may deliver its backlog before the view counts as whole. */
  readonly resumeSettling: number;
}

/** What anybody needs who watches an API server. */
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
   * Versions are compared by the structure of their projection, and only differences are told.
   * A projection that hides content (private fields) must carry the resourceVersion beside it.
   */
  readonly project: Projection<T>;
  /** False for an object that nothing may be made of: what was known under its name stays. */
  readonly accepts?: (object: RawObject) => boolean;
  readonly handlers: readonly SourceHandler<T>[];
  /** Where changes wait for the handlers; without it they are called at once. */
  readonly arrivals?: QueuedArrivals;
  readonly metrics?: ReflectorMetrics;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Objects asked for at a time, of a server that is not trusted to send no more. */
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
