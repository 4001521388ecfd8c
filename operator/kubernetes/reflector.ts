import { linkAbort, pause } from './abort.ts';
import { createBackoff } from '../model/backoff.ts';
import { type Comparison, createComparison, createLiveView } from './live-view.ts';
import { createContactLog, createStateKeeper } from './watch-health.ts';
import {
  followWatch,
  type ListOutcome,
  type ObjectEvent,
  readPages,
  type WatchEnd,
} from './list-and-watch.ts';
import { describeResource, identify, resourcePath } from './resource.ts';
import { describeFailure } from './outcome.ts';
import { silentRecorder } from './metrics.ts';
import { DEFAULT_TIMINGS, type ReflectorOptions } from './reflector-options.ts';
import type { Arrival, Projected, Source } from './source.ts';

/**
 * Keeps a live view of one resource: a paged list, then one watch that is resumed for as long as
 * the server remembers, then a list again whose differences give the changes that were missed
 * (docs/adr/0004). It never gives up and holds one page of raw objects at a time.
 */
export function createReflector<T extends Projected>(options: ReflectorOptions<T>): Source<T> {
  const { connection, resource, clock, random, logger, resume } = options;
  const timings = { ...DEFAULT_TIMINGS, ...options.timings };
  const path = resourcePath(resource);
  const selectors = { labelSelector: options.labelSelector, fieldSelector: options.fieldSelector };
  const recorder = options.metrics?.recorder(resource) ?? silentRecorder;
  const state = createStateKeeper({ clock, logger, resource: describeResource(resource) });
  const contact = createContactLog(resume?.knownAt ?? 0);
  const backoff = createBackoff({
    baseMs: timings.backoffBase,
    capMs: timings.backoffCap,
    random,
  });
  const view = createLiveView({
    project: options.project,
    handlers: options.handlers,
    logger,
    resource: describeResource(resource),
    initial: resume?.objects ?? [],
    onHandlerFailure: recorder.handlerFailure,
  });

  let resourceVersion = resume?.resourceVersion;
  let lastWholeListAt = resume?.knownAt ?? 0;
  let absences = 0;
  let interruptWatch = (): void => undefined;
  let cancelComparison = (): void => undefined;
  let comparison: Comparison | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    const comparing = compareRegularly(signal);
    while (!signal.aborted) {
      const delay = resourceVersion === undefined ? await relist(signal) : await follow(signal);
      if (!(await pause(clock, delay, signal))) break;
    }
    await comparing;
  }

  /** Reads the whole list and tells the differences; gives the delay before the next step. */
  async function relist(signal: AbortSignal): Promise<number> {
    // It would compare with a version that this list overtakes.
    cancelComparison();
    const askedAt = clock.now();
    const confirmed = new Set<T>();
    const outcome = await readPages({
      connection,
      path,
      query: selectors,
      signal,
      onItem: (object) => {
        if (identify(object) === undefined) recorder.garbage();
        const { held } = view.upsert(object, late(contact.knownUntil(clock.now())));
        if (held !== undefined) confirmed.add(held);
      },
    });
    if (outcome.kind !== 'complete') return relistFailed(outcome, signal);
    dropUnless((held) => confirmed.has(held));
    contact.confirm(askedAt);
    lastWholeListAt = askedAt;
    resourceVersion = outcome.resourceVersion;
    absences = 0;
    recorder.contact(askedAt);
    recorder.size(view.size);
    state.become('synced');
    return 0;
  }

  function relistFailed(
    outcome: Exclude<ListOutcome, { kind: 'complete' }>,
    signal: AbortSignal,
  ): number {
    if (signal.aborted) return 0;
    recorder.size(view.size);
    switch (outcome.kind) {
      case 'expired':
        recorder.failure();
        return backoff.next();
      case 'absent':
        return absent();
      default: {
        recorder.failure();
        state.become('failing', describeFailure(outcome.failure));
        const { failure } = outcome;
        const asked = failure.kind === 'status' ? (failure.retryAfterMs ?? 0) : 0;
        return Math.max(backoff.next(), asked);
      }
    }
  }

  /** A single 404 may be an API server that is starting; only the second takes the objects away. */
  function absent(): number {
    absences += 1;
    if (view.size > 0 && absences === 1) {
      state.become('failing', 'the API server does not serve the resource any more');
      return timings.absentProbe;
    }
    dropUnless(() => false);
    recorder.size(0);
    state.become('absent');
    return timings.absentProbe;
  }

  /** Watches from the version we have; gives the delay before the next step. */
  async function follow(signal: AbortSignal): Promise<number> {
    const link = linkAbort(signal);
    interruptWatch = link.abort;
    const seconds = timings.watchMin + random() * (timings.watchMax - timings.watchMin);
    const end = await followWatch({
      connection,
      path,
      query: { ...selectors, resourceVersion, timeoutSeconds: Math.round(seconds / 1000) },
      signal: link.signal,
      clock,
      inactivityMs: timings.inactivity,
      onOpen: opened,
      onEvent: (event) => {
        const at = clock.now();
        if (event.kind === 'object') take(event, at);
        resourceVersion =
          event.kind === 'object' ? event.identity.resourceVersion : event.resourceVersion;
        contact.touch(at);
        backoff.reset();
        recorder.contact(at);
      },
      onGarbage: recorder.garbage,
    });
    interruptWatch = () => undefined;
    link.release();
    return signal.aborted ? 0 : watchEnded(end);
  }

  function opened(signal: AbortSignal): void {
    contact.resume(clock.now());
    if (state.state !== 'starting') {
      state.become('synced');
      return;
    }
    void pause(clock, timings.resumeSettling, signal).then((waited) => {
      if (waited) state.become('synced');
    });
  }

  function take(event: ObjectEvent, at: number): void {
    comparison?.skip(event.identity);
    const arrival: Arrival = { at, knownUntil: contact.knownUntil(at), late: false };
    if (event.deleted) view.remove(event.object, arrival);
    else view.upsert(event.object, arrival);
    recorder.size(view.size);
  }

  function watchEnded(end: WatchEnd): number {
    switch (end.kind) {
      case 'closed':
        return backoff.next();
      case 'expired':
        return mustRelist('the watch cannot resume, its version is too old');
      case 'absent':
        return mustRelist('the API server does not serve it');
      case 'lost':
        recorder.failure();
        return mustRelist(end.reason);
      default: {
        recorder.failure();
        state.become('failing', describeFailure(end.failure));
        const asked = end.failure.kind === 'status' ? (end.failure.retryAfterMs ?? 0) : 0;
        return Math.max(backoff.next(), asked);
      }
    }
  }

  /** The view is not whole until the list is in. */
  function mustRelist(reason: string): number {
    resourceVersion = undefined;
    recorder.relist();
    state.become('failing', reason);
    return backoff.next();
  }

  /** The safety net (see {@link createComparison}). Does not hold up the watch. */
  async function compareRegularly(signal: AbortSignal): Promise<void> {
    const interval = (): number => timings.comparison * (0.8 + 0.4 * random());
    while (await pause(clock, interval(), signal)) {
      if (state.state !== 'synced' || resourceVersion === undefined) continue;
      await compareOnce(signal, resourceVersion);
    }
  }

  async function compareOnce(signal: AbortSignal, version: string): Promise<void> {
    const link = linkAbort(signal);
    cancelComparison = link.abort;
    const askedAt = clock.now();
    comparison = createComparison({ view, arrival: () => late(lastWholeListAt) });
    const outcome = await readPages({
      connection,
      path,
      query: { ...selectors, resourceVersion: version, resourceVersionMatch: 'Exact' },
      signal: link.signal,
      onItem: comparison.take,
    });
    link.release();
    if (outcome.kind === 'complete') {
      comparison.finish();
      lastWholeListAt = askedAt;
    }
    reportCorrections(comparison.corrections);
    comparison = undefined;
    // Too quiet a resource for its last version to be remembered: list it the ordinary way.
    if (outcome.kind === 'expired') {
      resourceVersion = undefined;
      interruptWatch();
    }
  }

  function reportCorrections(corrections: number): void {
    recorder.corrections(corrections);
    recorder.size(view.size);
    if (corrections === 0) return;
    const what = describeResource(resource);
    logger.warn(`[controller] ${what}: corrected ${corrections} objects whose events were lost`);
  }

  const late = (knownUntil: number): Arrival => ({ at: clock.now(), knownUntil, late: true });

  function dropUnless(keeps: (held: T) => boolean): void {
    const arrival = late(contact.knownUntil(clock.now()));
    for (const held of view.values()) if (!keeps(held)) view.drop(held, arrival);
  }

  return {
    resource,
    run,
    ready: (signal) => state.ready(signal),
    health: () => ({
      state: state.state,
      since: state.since,
      lastContactAt: contact.last,
      ...(state.returnedAt === undefined ? {} : { returnedAt: state.returnedAt }),
      ...(state.reason === undefined ? {} : { reason: state.reason }),
    }),
    get size() {
      return view.size;
    },
    values: () => view.values(),
    find: (namespace, name) => view.find(namespace, name),
    resourceVersion: () => resourceVersion,
  };
}
