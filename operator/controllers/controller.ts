import type { EventRecorder } from '../kubernetes/events.ts';
import type { WorkQueueMetrics } from '../kubernetes/metrics.ts';
import type { OperatorHost } from '../kubernetes/operator-base.ts';
import type { Source } from '../kubernetes/source.ts';
import type { StatusPublisher } from '../kubernetes/status-publisher.ts';
import { type WorkOutcome, WorkQueue } from '../kubernetes/work-queue.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SpecStatus } from './conditions.ts';
import {
  needsReconcile,
  type ControlledKind,
  type CustomObject,
  customObject,
} from './controlled-kind.ts';
import { ObjectReporter } from './object-reporter.ts';

/** An object with the outcome of its last reconciliation. */
export interface KnownObject<Spec> {
  readonly name: string;
  readonly uid: string;
  readonly spec: Spec;
  /** Whether it is deleted and its finalizer keeps it. */
  readonly deleting: boolean;
  readonly specStatus?: SpecStatus;
}

const REPORT_INTERVAL_MS = 2_000;
/** Longest wait before a retry. Many causes are fixed outside, such as an unreadable Secret. */
const RETRY_CAP_MS = 30_000;

/**
 * The controller of one kind: fetch → gone? → deleting? → finalizer → act (suspending is part of
 * the settings) → report. It reconciles one object at a time. Its only state beside the API server
 * and the engine is the last outcome of each object's spec.
 */
export class Controller<Spec> {
  readonly #kind: ControlledKind<Spec>;
  readonly #options;
  readonly #reporter: ObjectReporter<Spec>;
  readonly #queue: WorkQueue;
  readonly #source: Source<CustomObject<Spec>>;
  /** Uids of deleted objects whose cleanup is done. */
  readonly #finished = new Set<string>();
  /** Names of objects that were reconciled since the start. */
  readonly #reconciled = new Set<string>();
  readonly #reconciledListeners = new Set<() => void>();

  constructor(
    kind: ControlledKind<Spec>,
    options: {
      readonly host: Pick<OperatorHost, 'watch' | 'finalizers'>;
      readonly status: StatusPublisher;
      readonly events: EventRecorder;
      readonly clock: Clock;
      readonly logger: Logger;
      readonly queueMetrics?: WorkQueueMetrics;
      /** Interval between updates of statuses. The publisher writes only changes. */
      readonly reportIntervalMs?: number;
    },
  ) {
    this.#kind = kind;
    this.#options = options;
    this.#reporter = new ObjectReporter(kind, options.status, options.events, options.clock);
    this.#queue = new WorkQueue({
      name: kind.resource.plural,
      process: (name, signal) => this.#reconcile(name, signal),
      clock: options.clock,
      logger: options.logger,
      retryCapMs: RETRY_CAP_MS,
      metrics: options.queueMetrics,
    });
    this.#source = options.host.watch(kind.resource, customObject<Spec>(), {
      upserted: (next, previous) => {
        if (needsReconcile(next, previous)) this.#queue.add(next.name);
      },
      deleted: (last) => {
        this.#reporter.forget(last);
        if (!this.#finished.delete(last.uid)) this.#queue.add(last.name);
      },
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#source.run(signal),
      this.#queue.run(signal),
      this.#reportRegularly(signal),
    ]);
  }

  /** Resolves once every object of the first list is reconciled, or the kind is not installed. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#source.ready(signal);
    const first = this.objects().map(({ name }) => name);
    const areAllReconciled = (): boolean => first.every((name) => this.#reconciled.has(name));
    await whenTrue(areAllReconciled, this.#reconciledListeners, signal);
  }

  /** Returns existing objects, with valid specs or not, unless another process controls them. */
  objects(): readonly KnownObject<Spec>[] {
    const own = [...this.#source.values()].filter((object) => !this.#isAnothers(object));
    return own.map((object) => {
      const specStatus = this.#reporter.specStatusOf(object);
      const { name, uid, spec, deleting } = object;
      return { name, uid, spec, deleting, specStatus };
    });
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const kind = this.#kind;
    const object = this.#source.find('', name);
    if (object === undefined || object.deleting) this.#markReconciled(name);
    if (object === undefined) return this.#cleanUp(name, signal);
    if (object.deleting) return this.#finish(object, signal);
    if (this.#isAnothers(object)) return this.#leave(object, signal);
    const lacks = kind.finalizer !== undefined && !object.finalizers.includes(kind.finalizer);
    if (lacks) {
      return this.#options.host.finalizers.add(kind.resource, object, kind.finalizer);
    }
    const { specStatus, againMs } = await kind.act(object, signal);
    this.#reporter.reconciled(object, specStatus);
    this.#markReconciled(name);
    if (specStatus.kind === 'waiting') return { kind: 'failed', reason: specStatus.message };
    return againMs === undefined ? { kind: 'done' } : { kind: 'again', afterMs: againMs };
  }

  #isAnothers(object: CustomObject<Spec>): boolean {
    return this.#kind.isAnothers?.(object) === true;
  }

  /** Gives up an object that another process controls now. */
  async #leave(object: CustomObject<Spec>, signal: AbortSignal): Promise<WorkOutcome> {
    const { finalizer, resource } = this.#kind;
    this.#reporter.forget(object);
    const outcome = await this.#cleanUp(object.name, signal);
    this.#markReconciled(object.name);
    const isMarked = finalizer !== undefined && object.finalizers.includes(finalizer);
    if (outcome.kind !== 'done' || !isMarked) return outcome;
    return this.#options.host.finalizers.remove(resource, object, finalizer);
  }

  #markReconciled(name: string): void {
    this.#reconciled.add(name);
    for (const listener of this.#reconciledListeners) listener();
  }

  async #cleanUp(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const removed = await this.#kind.remove(name, signal);
    return removed.kind === 'removed' ? { kind: 'done' } : removed;
  }

  /** Cleans up for a deleted object, then removes the finalizer. */
  async #finish(object: CustomObject<Spec>, signal: AbortSignal): Promise<WorkOutcome> {
    const { finalizer, resource } = this.#kind;
    if (finalizer === undefined || !object.finalizers.includes(finalizer)) {
      return this.#cleanUp(object.name, signal);
    }
    if (!this.#finished.has(object.uid)) {
      const removed = await this.#kind.remove(object.name, signal);
      if (removed.kind === 'failed') {
        this.#reporter.removalFailed(object, finalizer);
        return removed;
      }
      if (removed.note !== undefined) this.#reporter.removed(object, removed.note);
      this.#finished.add(object.uid);
    }
    return this.#options.host.finalizers.remove(resource, object, finalizer);
  }

  async #reportRegularly(signal: AbortSignal): Promise<void> {
    const { clock, reportIntervalMs = REPORT_INTERVAL_MS } = this.#options;
    try {
      for (;;) {
        await clock.sleep(reportIntervalMs, signal);
        for (const object of this.#source.values()) {
          if (!object.deleting) this.#reporter.refresh(object);
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** Resolves once the condition is true. Evaluates it after each call of a listener. */
async function whenTrue(
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
