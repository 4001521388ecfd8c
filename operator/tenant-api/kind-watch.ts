import type { Connection } from '../kubernetes/connection.ts';
import { createReflector } from '../kubernetes/reflector.ts';
import type {
  ApiResource,
  Projected,
  Projection,
  Source,
  SourceHandler,
  SourceHealth,
} from '../kubernetes/source.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Budget } from './limits.ts';

/** Where a watch goes on from: what the journal knew, or what was held when it was stopped. */
export interface ResumeFrom<T extends Projected> {
  readonly resourceVersion?: string;
  readonly objects: readonly T[];
  readonly knownAt: number;
}

/** The watch of one kind in a tenant cluster: begun, stopped and begun again on another connection. */
export interface KindWatch {
  readonly resource: ApiResource;
  health(): SourceHealth;
  /** Its first list since the start of the process is in. */
  readonly listed: boolean;
  /** On which connection it runs; undefined while it is stopped. */
  readonly connection: Pick<Connection, 'request' | 'stream'> | undefined;
  start(connection: Pick<Connection, 'request' | 'stream'>): void;
  /** What was seen stays known, and is compared with a list when it begins again. */
  stop(reason: string): void;
  /** Nothing will be seen again: everything ends when it was last known. */
  end(): number;
  /** Where a restart can resume; undefined while nothing is known. */
  point(now: number): readonly [kind: string, point: WatchPoint] | undefined;
  /** Resolves when nothing of it runs any more. */
  idle(): Promise<void>;
}

interface WatchPoint {
  readonly resourceVersion?: string;
  readonly knownAt: number;
}

export interface KindWatchOptions<T extends Projected, S> {
  readonly resource: ApiResource;
  readonly project: Projection<T>;
  readonly timelines: Timelines<T, S>;
  /** Told before the timelines. */
  readonly handlers?: readonly SourceHandler<T>[];
  readonly resume: ResumeFrom<T> | undefined;
  readonly budget: Budget;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** A watch with a way to look at what it holds. */
export interface KindWatchOf<T extends Projected> extends KindWatch {
  find(namespace: string, name: string): T | undefined;
}

export function createKindWatch<T extends Projected, S>(
  options: KindWatchOptions<T, S>,
): KindWatchOf<T> {
  const { resource, project, timelines, budget, clock, random, logger } = options;
  const { kind } = timelines;
  let resume = options.resume;
  let source: Source<T> | undefined;
  let connection: Pick<Connection, 'request' | 'stream'> | undefined;
  let abort = (): void => undefined;
  let running: Promise<void> = Promise.resolve();
  let listed = false;
  let stopped: SourceHealth = {
    state: 'starting',
    since: clock.now(),
    freshAt: resume?.knownAt ?? 0,
  };

  const knownUntil = (): number => Math.max(source?.health().freshAt ?? 0, resume?.knownAt ?? 0);

  const awaitList = async (begun: Source<T>, signal: AbortSignal): Promise<void> => {
    const knownBefore = resume?.knownAt ?? 0;
    const ready = await begun.ready(signal).then(
      () => true,
      () => false,
    );
    if (!ready || signal.aborted || listed) return;
    listed = true;
    const holds = ({ uid, namespace, name }: Projected): boolean =>
      begun.find(namespace, name)?.uid === uid;
    timelines.listed(holds, knownBefore);
  };

  const halt = (health: SourceHealth): void => {
    if (source !== undefined && !listed && options.resume === undefined) {
      // Part of a first list proves nothing, and may be as large as somebody likes.
      timelines.forget();
    } else if (source !== undefined) {
      resume = { objects: [...source.values()], knownAt: knownUntil() };
    }
    source = undefined;
    connection = undefined;
    stopped = health;
    abort();
  };

  return {
    resource,
    get listed() {
      return listed;
    },
    get connection() {
      return connection;
    },
    health: () => source?.health() ?? stopped,
    find: (namespace, name) => source?.find(namespace, name),
    start: (next) => {
      if (source !== undefined) halt(source.health());
      const stop = new AbortController();
      abort = () => stop.abort();
      connection = next;
      budget.adopt(kind, resume?.objects ?? []);
      const begun = createReflector<T>({
        connection: next,
        resource,
        project,
        handlers: [budget.handler(kind), ...(options.handlers ?? []), timelines],
        clock,
        random,
        logger,
        ...(resume === undefined ? {} : { resume }),
      });
      source = begun;
      const before = running;
      running = Promise.all([before, begun.run(stop.signal), awaitList(begun, stop.signal)]).then(
        () => undefined,
      );
    },
    stop: (reason) => {
      if (source === undefined && stopped.reason === reason) return;
      const { state, since } = source?.health() ?? stopped;
      const began = state === 'failing' ? since : clock.now();
      halt({ state: 'failing', since: began, freshAt: knownUntil(), reason });
    },
    end: () => {
      const isWhole = source?.health().state === 'synced';
      const until = isWhole ? clock.now() : knownUntil();
      halt({ state: 'absent', since: clock.now(), freshAt: until });
      timelines.listed(() => false, until);
      return until;
    },
    point: (now) => {
      if (!listed && resume === undefined) return undefined;
      const knownAt = Math.min(now, knownUntil());
      const resourceVersion = listed ? source?.resourceVersion() : resume?.resourceVersion;
      return [kind, { knownAt, ...(resourceVersion === undefined ? {} : { resourceVersion }) }];
    },
    idle: () => running,
  };
}
