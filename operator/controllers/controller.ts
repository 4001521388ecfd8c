import type { EventRecorder } from '../kubernetes/events.ts';
import type { OperatorHost } from '../kubernetes/operator-base.ts';
import type { ApiResource } from '../kubernetes/source.ts';
import type { StatusPublisher } from '../kubernetes/status-publisher.ts';
import { createWorkQueue, type WorkOutcome } from '../kubernetes/work-queue.ts';
import type { WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ConditionClaim } from './conditions.ts';
import { asksForWork, type CustomObject, customObject } from './custom-object.ts';
import { createObjectReporter } from './object-reporter.ts';
import { until } from './until.ts';
import type { Verdict } from './verdict.ts';

/** What one kind of custom resource adds to the skeleton that all share. */
export interface ControlledKind<Spec> {
  readonly resource: ApiResource;
  readonly kind: string;
  /** Keeps a deleted object until `remove` has done its work; absent where nothing is to be kept. */
  readonly finalizer?: string;
  /** Looks at the newest spec and puts it in force if it can. An unusable one changes nothing. */
  act(object: CustomObject<Spec>, signal: AbortSignal): Promise<Acted>;
  /** Takes back what the object gave; also called when the object is gone. Idempotent. */
  remove(name: string, signal: AbortSignal): Promise<Removed>;
  /** What the status says, computed from memory. */
  report(object: CustomObject<Spec>, verdict: Verdict): Report;
}

export interface Acted {
  readonly verdict: Verdict;
  /** Look again after this time: something outside the object counts as well. */
  readonly againMs?: number;
}

export type Removed =
  /** `note` tells people what happened; absent when nothing did. */
  | { readonly kind: 'removed'; readonly note?: string }
  | { readonly kind: 'failed'; readonly reason: string };

export interface Report {
  /** False while the engine is starting and has not looked at the object itself. */
  readonly settled: boolean;
  readonly claims: readonly ConditionClaim[];
  /** The fields beside conditions and generation. */
  readonly numbers: object;
}

export interface ControllerOptions {
  readonly host: Pick<OperatorHost, 'watch' | 'finalizers'>;
  readonly status: StatusPublisher;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queueMetrics?: WorkQueueMetrics;
  /** Between looks at what the status should say; the publisher writes what changed. */
  readonly reportIntervalMs?: number;
}

export interface Controller {
  /** Works until the signal is aborted. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when every object of the first list has been looked at, or the kind is not installed. */
  ready(signal: AbortSignal): Promise<void>;
  /** Names of the objects that there are, whatever their specs are worth. */
  readonly names: () => readonly string[];
}

const REPORT_INTERVAL_MS = 2_000;
/** Whatever hinders work on an object is often mended from outside, such as a Secret that can be read again. */
const RETRY_CAP_MS = 30_000;

/**
 * The skeleton of all three controllers: fetch → gone? → deleting? → finalizer → act (suspending is
 * part of the settings) → report. It is told of keys, works on one key at a time and keeps no state
 * that the API server and the engine do not have, but for the last verdict of each object.
 */
export function createController<Spec>(
  kind: ControlledKind<Spec>,
  options: ControllerOptions,
): Controller {
  const { host, clock, logger } = options;
  const reporter = createObjectReporter(kind, options);
  /** Objects that were taken back before they went. */
  const finished = new Set<string>();
  const looked = new Set<string>();
  const lookedListeners = new Set<() => void>();

  const queue = createWorkQueue({
    name: kind.resource.plural,
    process: reconcile,
    clock,
    logger,
    retryCapMs: RETRY_CAP_MS,
    ...(options.queueMetrics === undefined ? {} : { metrics: options.queueMetrics }),
  });
  const source = host.watch(kind.resource, customObject<Spec>(), {
    upserted: (next, previous) => {
      if (asksForWork(next, previous)) queue.add(next.name);
    },
    deleted: (last) => {
      reporter.forget(last);
      if (!finished.delete(last.uid)) queue.add(last.name);
    },
  });

  async function reconcile(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const object = source.find('', name);
    if (object === undefined || object.deleting) markLooked(name);
    if (object === undefined) return takeBack(name, signal);
    if (object.deleting) return finish(object, signal);
    if (kind.finalizer !== undefined && !object.finalizers.includes(kind.finalizer)) {
      return host.finalizers.add(kind.resource, object, kind.finalizer);
    }
    const { verdict, againMs } = await kind.act(object, signal);
    reporter.judged(object, verdict);
    markLooked(name);
    if (verdict.kind === 'waiting') return { kind: 'failed', reason: verdict.message };
    return againMs === undefined ? { kind: 'done' } : { kind: 'again', afterMs: againMs };
  }

  function names(): readonly string[] {
    return [...source.values()].map(({ name }) => name);
  }

  function markLooked(name: string): void {
    looked.add(name);
    for (const listener of lookedListeners) listener();
  }

  async function takeBack(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const removed = await kind.remove(name, signal);
    return removed.kind === 'removed' ? { kind: 'done' } : removed;
  }

  /** The object is going: take back what it gave, then let it go. */
  async function finish(object: CustomObject<Spec>, signal: AbortSignal): Promise<WorkOutcome> {
    const { finalizer } = kind;
    if (finalizer === undefined || !object.finalizers.includes(finalizer)) {
      return takeBack(object.name, signal);
    }
    if (!finished.has(object.uid)) {
      const removed = await kind.remove(object.name, signal);
      if (removed.kind === 'failed') {
        reporter.removalFailed(object, finalizer);
        return removed;
      }
      if (removed.note !== undefined) reporter.removed(object, removed.note);
      finished.add(object.uid);
    }
    return host.finalizers.remove(kind.resource, object, finalizer);
  }

  async function reportRegularly(signal: AbortSignal): Promise<void> {
    const intervalMs = options.reportIntervalMs ?? REPORT_INTERVAL_MS;
    try {
      for (;;) {
        await clock.sleep(intervalMs, signal);
        for (const object of source.values()) if (!object.deleting) reporter.refresh(object);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  return {
    run: async (signal) => {
      await Promise.all([source.run(signal), queue.run(signal), reportRegularly(signal)]);
    },
    ready: async (signal) => {
      await source.ready(signal);
      const first = names();
      await until(() => first.every((name) => looked.has(name)), lookedListeners, signal);
    },
    names,
  };
}
