import { Backoff } from '../model/backoff.ts';
import { linkAbort, pause } from '../telemetry/abort.ts';
import { ArrivalTimes } from './arrival-times.ts';
import { PeriodicComparison } from './comparison.ts';
import {
  followWatch,
  type ListOutcome,
  type ObjectEvent,
  readPages,
  type WatchEnd,
  type WatchProgress,
} from './list-and-watch.ts';
import { LiveView } from './live-view.ts';
import { type ReflectorMetrics, silentRecorder } from './metrics.ts';
import { describeFailure, type RequestFailure } from './outcome.ts';
import {
  DEFAULT_TIMINGS,
  type ReflectorOptions,
  type ReflectorTimings,
} from './reflector-options.ts';
import { Relist } from './relist.ts';
import { describeResource, resourcePath } from './resource.ts';
import type { ApiResource, Arrival, Projected, Source, SourceHealth } from './source.ts';
import { SourceStateTracker } from './watch-health.ts';

/**
 * Maintains a live view of one resource: a paged list, then a watch. The watch resumes while the
 * server remembers its version; after that a new list finds the missed changes by comparison
 * (docs/explanation/adr/0004-watch-layer-of-our-own.md). It never gives up, and keeps at most one
 * page of raw objects in memory.
 */
export class Reflector<T extends Projected> implements Source<T> {
  readonly resource: ApiResource;
  /** Without `resume`, which would keep replaced objects in memory for ever. */
  readonly #options: Omit<ReflectorOptions<T>, 'resume'>;
  readonly #timings: ReflectorTimings;
  readonly #path: string;
  readonly #selectors: { readonly [name: string]: string | undefined };
  readonly #recorder: ReturnType<ReflectorMetrics>;
  readonly #state: SourceStateTracker;
  readonly #times: ArrivalTimes;
  readonly #backoff: Backoff;
  /**
   * Backoff between watches that cannot resume. It is separate because the API server answers again
   * then, however long it was away.
   */
  readonly #listBackoff: Backoff;
  readonly #view: LiveView<T>;
  readonly #comparison: PeriodicComparison<T>;
  /** Version to resume the watch from; undefined when a list is needed first. */
  #version: string | undefined;
  /** Consecutive lists that the server answered with 404. */
  #absences = 0;
  #interruptWatch = (): void => undefined;

  constructor(options: ReflectorOptions<T>) {
    const { resume, ...kept } = options;
    const { resource, clock, random, logger, pageSize } = kept;
    const { labelSelector, fieldSelector } = kept;
    const { knownAt = 0 } = resume ?? {};
    const name = describeResource(resource);
    this.resource = resource;
    this.#options = kept;
    this.#timings = { ...DEFAULT_TIMINGS, ...kept.timings };
    this.#path = resourcePath(resource);
    this.#selectors = { labelSelector, fieldSelector };
    this.#recorder = kept.metrics?.(resource) ?? silentRecorder;
    this.#state = new SourceStateTracker(clock, logger, name);
    this.#times = new ArrivalTimes(clock, knownAt);
    const backoff = {
      baseMs: this.#timings.backoffBase,
      capMs: this.#timings.backoffCap,
      random,
    };
    this.#backoff = new Backoff(backoff);
    this.#listBackoff = new Backoff(backoff);
    this.#view = new LiveView({
      project: kept.project,
      accepts: kept.accepts,
      handlers: kept.handlers,
      arrivals: kept.arrivals,
      logger,
      resource: name,
      initial: resume?.objects ?? [],
      onHandlerFailure: this.#recorder.handlerFailure,
    });
    this.#version = resume?.resourceVersion;
    this.#comparison = new PeriodicComparison({
      ...kept,
      pageSize,
      path: this.#path,
      selectors: this.#selectors,
      view: this.#view,
      recorder: this.#recorder,
      resource: name,
      intervalMs: this.#timings.comparison,
      knownAt,
      version: () => (this.#state.state === 'synced' ? this.#version : undefined),
      onExpired: () => this.#versionForgotten(),
    });
  }

  get size(): number {
    return this.#view.size;
  }

  values(): IterableIterator<T> {
    return this.#view.values();
  }

  find(namespace: string, name: string): T | undefined {
    return this.#view.find(namespace, name);
  }

  resourceVersion(): string | undefined {
    return this.#version;
  }

  ready(signal: AbortSignal): Promise<void> {
    return this.#state.ready(signal);
  }

  health(): SourceHealth {
    const { state, since, returnedAt, reason } = this.#state;
    const { receivedAt: freshAt, unseen } = this.#times;
    return { state, since, freshAt, unseen, returnedAt, reason };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const comparing = this.#comparison.run(signal);
    while (!signal.aborted) {
      const delay = await (this.#version === undefined
        ? this.#relist(signal)
        : this.#follow(signal, this.#version));
      if (!(await pause(clock, delay, signal))) break;
    }
    await comparing;
  }

  /** Reads the complete list and reports differences; returns the delay before the next step. */
  async #relist(signal: AbortSignal): Promise<number> {
    const { connection, clock } = this.#options;
    this.#comparison.cancel();
    const requestedAt = clock.now();
    const list = new Relist(this.#view, () => this.#late());
    const outcome = await readPages({
      connection,
      path: this.#path,
      query: this.#selectors,
      signal,
      pageSize: this.#options.pageSize,
      onItem: (object) => {
        if (!list.take(object)) this.#recorder.garbage();
      },
    });
    if (outcome.kind !== 'complete') return this.#relistFailed(outcome, signal);
    list.finish();
    this.#times.listed(requestedAt);
    this.#comparison.confirm(requestedAt);
    this.#version = outcome.resourceVersion;
    this.#absences = 0;
    this.#recorder.received(requestedAt);
    this.#recorder.size(this.#view.size);
    this.#state.become('synced');
    return 0;
  }

  #relistFailed(outcome: Exclude<ListOutcome, { kind: 'complete' }>, signal: AbortSignal): number {
    if (signal.aborted) return 0;
    this.#recorder.size(this.#view.size);
    switch (outcome.kind) {
      case 'expired':
        this.#recorder.failure();
        return this.#backoff.next();
      case 'absent':
        return this.#absent();
      default:
        return this.#failed(outcome.failure);
    }
  }

  /** Removes the objects after the second 404 only: an API server that is starting may send one. */
  #absent(): number {
    this.#absences += 1;
    if (this.#view.size > 0 && this.#absences === 1) {
      this.#state.become('failing', 'the API server stopped serving the resource');
      return this.#timings.absentProbe;
    }
    this.#dropAll();
    this.#times.absent(this.#options.clock.now());
    this.#recorder.size(0);
    this.#state.become('absent');
    return this.#timings.absentProbe;
  }

  /**
   * Handles a list or watch that was refused or cut. Returns the delay, at least the server's
   * `Retry-After`.
   */
  #failed(failure: RequestFailure): number {
    this.#recorder.failure();
    this.#state.become('failing', describeFailure(failure));
    const serverDelay = failure.kind === 'status' ? (failure.retryAfterMs ?? 0) : 0;
    return Math.max(this.#backoff.next(), serverDelay);
  }

  /** Watches from `version` on; returns the delay before the next step. */
  async #follow(signal: AbortSignal, version: string): Promise<number> {
    const { connection, clock, random } = this.#options;
    const { watchMin, watchMax, inactivity } = this.#timings;
    const link = linkAbort(signal);
    this.#interruptWatch = link.abort;
    const timeoutSeconds = Math.round((watchMin + random() * (watchMax - watchMin)) / 1000);
    const end = await followWatch({
      connection,
      path: this.#path,
      query: { ...this.#selectors, resourceVersion: version, timeoutSeconds },
      signal: link.signal,
      clock,
      inactivityMs: inactivity,
      onOpen: (open) => this.#opened(open),
      onEvent: (event) => this.#take(event),
      onGarbage: this.#recorder.garbage,
    });
    this.#interruptWatch = () => undefined;
    link.release();
    return signal.aborted ? 0 : this.#watchEnded(end);
  }

  #opened(signal: AbortSignal): void {
    this.#times.opened();
    this.#state.resumed(this.#timings.resumeSettling, signal);
  }

  #take(event: WatchProgress): void {
    const at = this.#options.clock.now();
    this.#times.arriving(event, at);
    if (event.kind === 'object') {
      this.#change(event, at);
      this.#version = event.identity.resourceVersion;
    } else {
      this.#version = event.resourceVersion;
    }
    this.#times.taken(at);
    this.#backoff.reset();
    this.#listBackoff.reset();
    this.#recorder.received(at);
  }

  #change(event: ObjectEvent, at: number): void {
    this.#comparison.skip(event.identity);
    const arrival = this.#times.arrivalOf(at);
    if (event.deleted) this.#view.remove(event.object, arrival);
    else this.#view.upsert(event.object, arrival);
    this.#recorder.size(this.#view.size);
  }

  #watchEnded(end: WatchEnd): number {
    this.#times.closed(end.kind === 'closed' && end.ended);
    switch (end.kind) {
      case 'closed':
        return this.#backoff.next();
      case 'expired':
        return this.#mustRelist('the watch cannot resume: its version is too old');
      case 'absent':
        return this.#mustRelist('the API server does not serve the resource');
      case 'lost':
        this.#recorder.failure();
        return this.#mustRelist(end.reason);
      default:
        return this.#failed(end.failure);
    }
  }

  /** Requires a new list; the view is incomplete until it arrives. */
  #mustRelist(reason: string): number {
    this.#version = undefined;
    this.#recorder.relist();
    this.#state.become('failing', reason);
    return this.#listBackoff.next();
  }

  /** The server has discarded the last version of a quiet resource: list it again. */
  #versionForgotten(): void {
    this.#version = undefined;
    this.#interruptWatch();
  }

  #dropAll(): void {
    const arrival = this.#late();
    for (const known of this.#view.values()) this.#view.drop(known, arrival);
  }

  /** Returns the arrival of a change that happened at an unknown time. */
  #late(): Arrival {
    const at = this.#options.clock.now();
    return { at, knownUntil: this.#times.knownUntil(at), late: true };
  }
}
