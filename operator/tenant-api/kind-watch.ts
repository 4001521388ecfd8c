import type { Connection } from '../kubernetes/connection.ts';
import { QueuedArrivals } from '../kubernetes/live-view.ts';
import type { ResumePoint } from '../kubernetes/reflector-options.ts';
import { Reflector } from '../kubernetes/reflector.ts';
import type {
  ApiResource,
  Arrival,
  Projected,
  Projection,
  RawObject,
  Source,
  SourceHandler,
  SourceHealth,
} from '../kubernetes/source.ts';
import { errorText } from '../model/error-text.ts';
import type { Timelines } from '../metering/timelines/timelines.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { foreignObjectProblem } from './reading/foreign-object.ts';
import type { ApiLimiter } from './limits.ts';
import type { WatchPoint } from '../metering/windows/scope.ts';

/** Most stretches without a watch that are kept; the newest count. */
const MOST_UNSEEN = 20;

/** With objects of usual size, a page fits into the byte limit of an answer. */
const PAGE_SIZE = 100;

type WatchableConnection = Pick<Connection, 'request' | 'stream'>;

/** Receiver of what a watch sees. */
export type WatchedTimelines<T extends Projected> = SourceHandler<T> &
  Pick<Timelines<never, unknown>, 'kind' | 'listed' | 'forget'>;

/** Watch of one kind in a tenant cluster. It can stop, and start on another connection. */
export class KindWatch<T extends Projected> {
  readonly #options;
  /** Where the watch resumes: the journal's state, or the state at the last stop. */
  #resume: ResumePoint<T> | undefined;
  #source: Source<T> | undefined;
  #connection: WatchableConnection | undefined;
  #stopped: SourceHealth;
  /** Stretches of the former source that the collector may not have read yet. */
  #unseen: NonNullable<SourceHealth['unseen']> = [];
  #abort = (): void => undefined;
  #running: Promise<unknown> = Promise.resolve();
  #listed = false;
  /** Uids of objects with a change that failed to apply. The next list reports it again. */
  readonly #unreported = new Set<string>();
  readonly #queued: QueuedArrivals;
  /** Where a restart resumes while arrivals are queued. */
  #queuedPoint: readonly [kind: string, point: WatchPoint] | undefined;

  constructor(options: {
    readonly resource: ApiResource;
    readonly project: Projection<T>;
    readonly timelines: WatchedTimelines<T>;
    /** Called before the timelines. */
    readonly handlers?: readonly SourceHandler<T>[];
    /** Replaces an arrived version before it reaches the timelines. */
    readonly adjust?: (next: T, previous: T | undefined, arrival: Arrival) => T;
    /** Objects in the journal. */
    readonly resume: ResumePoint<T> | undefined;
    readonly limiter: ApiLimiter;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
  }) {
    this.#options = options;
    this.#queued = new QueuedArrivals(options.logger);
    this.#resume = options.resume;
    this.#stopped = {
      state: 'starting',
      since: options.clock.now(),
      freshAt: options.resume?.knownAt ?? 0,
    };
  }

  get resource(): ApiResource {
    return this.#options.resource;
  }

  /** True when the first list since the start of the process has arrived. */
  get listed(): boolean {
    return this.#listed;
  }

  /** The connection in use; undefined while stopped. */
  get connection(): WatchableConnection | undefined {
    return this.#connection;
  }

  health(): SourceHealth {
    if (this.#source === undefined) return { ...this.#stopped, unseen: this.#unseen };
    const health = this.#source.health();
    return { ...health, unseen: [...this.#unseen, ...(health.unseen ?? [])] };
  }

  find(namespace: string, name: string): T | undefined {
    return this.#source?.find(namespace, name);
  }

  start(connection: WatchableConnection): void {
    const { limiter, timelines, handlers = [] } = this.#options;
    if (this.#source !== undefined) this.#halt(this.#source.health());
    const stop = new AbortController();
    this.#abort = () => stop.abort();
    this.#connection = connection;
    limiter.adopt(timelines.kind, this.#resume?.objects ?? []);
    const { resource, project, clock, random, logger } = this.#options;
    const source = new Reflector<T>({
      connection,
      resource,
      project,
      accepts: (object) => this.#accepts(object),
      handlers: [limiter.handler(timelines.kind), ...handlers, this.#timelines()].map((handler) =>
        this.#contained(handler),
      ),
      pageSize: PAGE_SIZE,
      clock,
      random,
      logger,
      resume: this.#resume,
    });
    this.#source = source;
    this.#running = Promise.all([
      this.#running,
      source.run(stop.signal).catch((error: unknown) => this.#refuse(error)),
      this.#awaitList(source, stop.signal),
    ]);
  }

  /** Stops the watch. Its objects stay known and are compared with a list at the next start. */
  stop(reason: string): void {
    if (this.#source === undefined && this.#stopped.reason === reason) return;
    const { state, since } = this.health();
    const began = state === 'failing' ? since : this.#options.clock.now();
    this.#halt({ state: 'failing', since: began, freshAt: this.#knownUntil(), reason });
  }

  /** Queues all arrivals until {@link release}. Timelines and {@link point} stay as they are. */
  retain(now: number): void {
    this.#queuedPoint = this.point(now);
    this.#queued.begin();
  }

  /** True while arrivals are queued. A stop or a first list also ends that. */
  get isQueueing(): boolean {
    return this.#queued.isQueueing;
  }

  /** Applies the queued arrivals. */
  release(): void {
    this.#queued.release();
  }

  /** Ends all objects at the time when they were last known, and returns it, ms (wall clock). */
  end(): number {
    this.release();
    const { clock, timelines } = this.#options;
    const isComplete = this.#source?.health().state === 'synced';
    const until = isComplete ? clock.now() : this.#knownUntil();
    this.#halt({ state: 'absent', since: clock.now(), freshAt: until });
    timelines.listed(() => false, until);
    return until;
  }

  /** Where a restart can resume; undefined while nothing is known. */
  point(now: number): readonly [kind: string, point: WatchPoint] | undefined {
    if (this.#queued.isQueueing) return this.#queuedPoint;
    const resume = this.#resume;
    if (!this.#listed && resume === undefined) return undefined;
    const knownAt = Math.min(now, this.#knownUntil());
    const listed = this.#unreported.size === 0 ? this.#source?.resourceVersion() : undefined;
    const resourceVersion = this.#listed ? listed : resume?.resourceVersion;
    return [this.#options.timelines.kind, { knownAt, resourceVersion }];
  }

  /** Resolves when no part of the watch runs. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Rejects an object that breaks Kubernetes' own rules, and suspends its whole API. */
  #accepts(object: RawObject): boolean {
    const problem = foreignObjectProblem(object);
    if (problem === undefined) return true;
    const { limiter, resource } = this.#options;
    limiter.refuse(`${resource.plural} ${problem}`);
    return false;
  }

  /** Wraps a handler: an object that makes it throw suspends this API, until a new list. */
  #contained(handler: SourceHandler<T>): SourceHandler<T> {
    const attempt = (object: T, take: () => void): void => {
      try {
        take();
      } catch (error) {
        this.#unreported.add(object.uid);
        this.#refuse(error, object);
      }
    };
    return {
      upserted: (next, previous, arrival) =>
        this.#queued.take(() => attempt(next, () => handler.upserted(next, previous, arrival))),
      deleted: (last, arrival) =>
        this.#queued.take(() => attempt(last, () => handler.deleted(last, arrival))),
    };
  }

  #refuse(error: unknown, object?: T): void {
    const { limiter, resource, logger } = this.#options;
    const which = object === undefined ? '' : ` "${object.namespace}/${object.name}"`;
    logger.error(`[controller] ${resource.plural}${which} cannot be applied`, { error });
    limiter.refuse(`${resource.plural}${which} cannot be applied: ${errorText(error)}`);
  }

  #timelines(): SourceHandler<T> {
    const { timelines, adjust } = this.#options;
    if (adjust === undefined) return timelines;
    return {
      upserted: (next, previous, arrival) =>
        timelines.upserted(adjust(next, previous, arrival), previous, arrival),
      deleted: (last, arrival) => timelines.deleted(last, arrival),
    };
  }

  #knownUntil(): number {
    return Math.max(this.#source?.health().freshAt ?? 0, this.#resume?.knownAt ?? 0);
  }

  async #awaitList(begun: Source<T>, signal: AbortSignal): Promise<void> {
    const knownBefore = this.#resume?.knownAt ?? 0;
    const ready = await begun.ready(signal).then(
      () => true,
      () => false,
    );
    if (!ready || signal.aborted || (this.#listed && this.#unreported.size === 0)) return;
    this.release();
    this.#listed = true;
    this.#unreported.clear();
    const isListed = ({ uid, namespace, name }: Projected): boolean =>
      begun.find(namespace, name)?.uid === uid;
    this.#options.timelines.listed(isListed, knownBefore, begun.health().freshAt);
  }

  #halt(health: SourceHealth): void {
    this.release();
    if (this.#source !== undefined && !this.#listed && this.#options.resume === undefined) {
      // An incomplete first list proves nothing, and its size is unlimited.
      this.#options.timelines.forget();
      this.#options.limiter.adopt(this.#options.timelines.kind, []);
    } else if (this.#source !== undefined) {
      const reported = [...this.#source.values()].filter(({ uid }) => !this.#unreported.has(uid));
      this.#resume = { objects: reported, knownAt: this.#knownUntil() };
    }
    this.#unseen = (this.health().unseen ?? []).slice(-MOST_UNSEEN);
    this.#source = undefined;
    this.#connection = undefined;
    this.#stopped = health;
    this.#abort();
  }
}

/** A watch of any kind. */
export type AnyKindWatch = Pick<KindWatch<Projected>, keyof KindWatch<Projected>>;
