import type { StatusTarget } from '../kubernetes/apply-status.ts';
import type { Condition } from '../kubernetes/conditions.ts';
import type { EventRecorder } from '../kubernetes/events.ts';
import type { OperatorHost } from '../kubernetes/operator-host.ts';
import type { ApiResource } from '../kubernetes/source.ts';
import type { StatusPublisher } from '../kubernetes/status-publisher.ts';
import { createWorkQueue, type WorkOutcome } from '../kubernetes/work-queue.ts';
import type { WorkQueueMetrics } from '../kubernetes/work-queue-metrics.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type ConditionClaim, conditionsOf } from './conditions.ts';
import { asksForWork, type CustomObject, customObject } from './custom-object.ts';
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

const REPORT_INTERVAL_MS = 5_000;
/** How long after a start an older status is better than "not known yet". */
const SETTLING_MS = 60_000;

/**
 * The skeleton of all three controllers: fetch → gone? → deleting? → finalizer → act (suspending is
 * part of the settings) → report. It is told of keys, works on one key at a time and keeps no state
 * that the API server and the engine do not have, but for the last verdict of each object.
 */
export function createController<Spec>(
  kind: ControlledKind<Spec>,
  options: ControllerOptions,
): Controller {
  const { host, status, events, clock, logger } = options;
  const startedAt = clock.monotonic();
  const judged = new Map<string, Judged>();
  /** Objects that were taken back before they went. */
  const finished = new Set<string>();
  const looked = new Set<string>();
  const lookedListeners = new Set<() => void>();

  const queue = createWorkQueue({
    name: kind.resource.plural,
    process: reconcile,
    clock,
    logger,
    ...(options.queueMetrics === undefined ? {} : { metrics: options.queueMetrics }),
  });
  const source = host.watch(kind.resource, customObject<Spec>(), {
    upserted: (next, previous) => {
      if (asksForWork(next, previous)) queue.add(next.name);
    },
    deleted: (last) => {
      judged.delete(last.uid);
      status.forget(last.uid);
      if (!finished.delete(last.uid)) queue.add(last.name);
    },
  });

  async function reconcile(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const object = source.find('', name);
    if (object === undefined || object.deleting) markLooked(name);
    if (object === undefined) return takeBack(name, signal);
    if (object.deleting) return finish(object, signal);
    if (kind.finalizer !== undefined && !object.finalizers.includes(kind.finalizer)) {
      return host.finalizers.add(kind.resource, object, kind.finalizer, signal);
    }
    const { verdict, againMs } = await kind.act(object, signal);
    tell(object, verdict);
    report(object, verdict);
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
        publish(object, { claims: [notFinished(finalizer)], numbers: {} });
        return removed;
      }
      if (removed.note !== undefined) record(object, 'Normal', 'Removed', removed.note);
      finished.add(object.uid);
    }
    return host.finalizers.remove(kind.resource, object, finalizer, signal);
  }

  /** Events only where something happened: another spec was taken up, or could not be. */
  function tell(object: CustomObject<Spec>, verdict: Verdict): void {
    const before = judged.get(object.uid);
    const known = before?.generation ?? object.observedGeneration;
    judged.set(object.uid, {
      generation: object.generation,
      verdict,
      conditions: before?.conditions,
    });
    if (verdict.kind === 'invalid') {
      const same = before?.verdict.kind === 'invalid' && before.verdict.message === verdict.message;
      if (!same) record(object, 'Warning', verdict.reason, verdict.message);
      return;
    }
    const taken = known !== object.generation || before?.verdict.kind === 'invalid';
    if (verdict.kind === 'accepted' && taken) {
      record(object, 'Normal', 'Configured', 'The settings are in force');
    }
  }

  function record(
    object: CustomObject<Spec>,
    type: 'Normal' | 'Warning',
    reason: string,
    note: string,
  ): void {
    const { name, uid } = object;
    const { group, version } = kind.resource;
    const regarding = { apiVersion: `${group}/${version}`, kind: kind.kind, name, uid };
    events.record({ regarding, type, reason, action: 'Reconcile', note });
  }

  /** A restart is no transition: until the engine has looked, the status from before it stays. */
  function report(object: CustomObject<Spec>, verdict: Verdict): void {
    const said = kind.report(object, verdict);
    const starting = clock.monotonic() - startedAt < SETTLING_MS;
    const reported = object.observedGeneration === object.generation;
    const untold = judged.get(object.uid)?.conditions === undefined;
    if (!said.settled && starting && reported && untold) return;
    publish(object, said);
  }

  function publish(object: CustomObject<Spec>, { claims, numbers }: Omit<Report, 'settled'>): void {
    const { uid, generation } = object;
    const known = judged.get(uid);
    const previous = known?.conditions ?? object.conditions;
    const conditions = conditionsOf(claims, previous, generation, clock.now());
    if (known !== undefined) judged.set(uid, { ...known, conditions });
    status.publish(targetOf(object), { ...numbers, conditions, observedGeneration: generation });
  }

  function targetOf({ name, uid }: CustomObject<Spec>): StatusTarget {
    return { resource: kind.resource, kind: kind.kind, name, uid };
  }

  /** Objects whose newest spec has not been looked at keep their status: they are about to be. */
  function reportAll(): void {
    for (const object of source.values()) {
      const known = judged.get(object.uid);
      if (known?.generation === object.generation && !object.deleting)
        report(object, known.verdict);
    }
  }

  async function reportRegularly(signal: AbortSignal): Promise<void> {
    const intervalMs = options.reportIntervalMs ?? REPORT_INTERVAL_MS;
    try {
      for (;;) {
        await clock.sleep(intervalMs, signal);
        reportAll();
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

interface Judged {
  readonly generation: number;
  readonly verdict: Verdict;
  /** As last published; undefined before that. */
  readonly conditions: readonly Condition[] | undefined;
}

function notFinished(finalizer: string): ConditionClaim {
  const message = `What the object stands for could not be put away, and is tried again; removing the finalizer ${finalizer} by hand lets the object go without it`;
  return { type: 'Ready', status: 'False', reason: 'RemovalFailing', message };
}

/** Resolves once the condition holds, asked again whenever a listener is called. */
async function until(
  condition: () => boolean,
  listeners: Set<() => void>,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  if (condition()) return;
  await new Promise<void>((resolve, reject) => {
    const end = (): void => {
      listeners.delete(check);
      signal.removeEventListener('abort', abort);
    };
    const abort = (): void => {
      end();
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    const check = (): void => {
      if (!condition()) return;
      end();
      resolve();
    };
    listeners.add(check);
    signal.addEventListener('abort', abort, { once: true });
  });
}
