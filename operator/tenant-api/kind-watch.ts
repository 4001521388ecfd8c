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
import type { Budget } from './limits.ts';
import type { WatchPoint } from '../metering/windows/scope.ts';

/** Of the stretches that no watch covered, the newest. */
const MOST_UNSEEN = 20;

/** Small enough for the bytes that one answer may have, with objects of the usual size. */
const PAGE_SIZE = 100;

type WatchableConnection = Pick<Connection, 'request' | 'stream'>;

/** Where a watch brings what it sees. */
export type WatchedTimelines<T extends Projected> = SourceHandler<T> &
  Pick<Timelines<never, unknown>, 'kind' | 'listed' | 'forget'>;

interface KindWatchOptions<T extends Projected> {
  readonly resource: ApiResource;
  readonly project: Projection<T>;
  readonly timelines: WatchedTimelines<T>;
  /** Called before the timelines. */
  readonly handlers?: readonly SourceHandler<T>[];
  /** What the timelines are given instead of a version that has arrived. */
  readonly adjust?: (next: T, previous: T | undefined, arrival: Arrival) => T;
  /** What the journal knew. */
  readonly resume: ResumePoint<T> | undefined;
  readonly budget: Budget;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

/** The watch of one kind in a tenant cluster: begun, stopped and begun again on another connection. */
export class KindWatch<T extends Projected> {
  readonly #options: KindWatchOptions<T>;
  /** Where the watch goes on from: what the journal knew, or what was held when it was stopped. */
  #resume: ResumePoint<T> | undefined;
  #source: Source<T> | undefined;
  #connection: WatchableConnection | undefined;
  #stopped: SourceHealth;
  /** The stretches of the source before, which somebody may not have read yet. */
  #unseen: NonNullable<SourceHealth['unseen']> = [];
  #abort = (): void => undefined;
  #running: Promise<unknown> = Promise.resolve();
  #listed = false;
  /** The uids of objects whose change was not taken in: the next list tells it once more. */
  readonly #unreported = new Set<string>();
  readonly #queued: QueuedArrivals;
  /** Where a restart resumes as long as arrivals are held. */
  #queuedPoint: readonly [kind: string, point: WatchPoint] | undefined;

  constructor(options: KindWatchOptions<T>) {
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

  /** Its first list since the start of the process is in. */
  get listed(): boolean {
    return this.#listed;
  }

  /** On which connection it runs; undefined while it is stopped. */
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
    const { budget, timelines, handlers = [] } = this.#options;
    if (this.#source !== undefined) this.#halt(this.#source.health());
    const stop = new AbortController();
    this.#abort = () => stop.abort();
    this.#connection = connection;
    budget.adopt(timelines.kind, this.#resume?.objects ?? []);
    const { resource, project, clock, random, logger } = this.#options;
    const source = new Reflector<T>({
      connection,
      resource,
      project,
      accepts: (object) => this.#accepts(object),
      handlers: [budget.handler(timelines.kind), ...handlers, this.#timelines()].map((handler) =>
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

  /** What was seen stays known, and is compared with a list when it begins again. */
  stop(reason: string): void {
    if (this.#source === undefined && this.#stopped.reason === reason) return;
    const { state, since } = this.health();
    const began = state === 'failing' ? since : this.#options.clock.now();
    this.#halt({ state: 'failing', since: began, freshAt: this.#knownUntil(), reason });
  }

  /** What is seen from now on waits for {@link release}: timelines and {@link point} stay as they are. */
  retain(now: number): void {
    this.#queuedPoint = this.point(now);
    this.#queued.begin();
  }

  /** False from when nothing is held any more, for whatever reason. */
  get held(): boolean {
    return this.#queued.isQueueing;
  }

  /** Takes in what has waited. */
  release(): void {
    this.#queued.release();
  }

  /** Nothing will be seen again: everything ends when it was last known, wall clock, milliseconds. */
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

  /** Resolves when nothing of it runs any more. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** A server that breaks Kubernetes' own rules is believed nothing. */
  #accepts(object: RawObject): boolean {
    const problem = foreignObjectProblem(object);
    if (problem === undefined) return true;
    const { budget, resource } = this.#options;
    budget.refuse(`${resource.plural} ${problem}`);
    return false;
  }

  /** What this tenant cluster's object makes throw is left alone with its API, until a fresh list. */
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
    const { budget, resource, logger } = this.#options;
    const which = object === undefined ? '' : ` "${object.namespace}/${object.name}"`;
    logger.error(`[controller] ${resource.plural}${which} cannot be taken in`, { error });
    budget.refuse(`${resource.plural}${which} cannot be taken in: ${errorText(error)}`);
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
    const holds = ({ uid, namespace, name }: Projected): boolean =>
      begun.find(namespace, name)?.uid === uid;
    this.#options.timelines.listed(holds, knownBefore, begun.health().freshAt);
  }

  #halt(health: SourceHealth): void {
    this.release();
    if (this.#source !== undefined && !this.#listed && this.#options.resume === undefined) {
      // Part of a first list proves nothing, and may be as large as somebody likes.
      this.#options.timelines.forget();
      this.#options.budget.adopt(this.#options.timelines.kind, []);
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

/** The watch of any kind. */
export type AnyKindWatch = Pick<KindWatch<Projected>, keyof KindWatch<Projected>>;
