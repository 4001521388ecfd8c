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
  queriesForWork,
  type ControlledKind,
  type CustomObject,
  customObject,
} from './controlled-kind.ts';
import { ObjectReporter } from './object-reporter.ts';

interface ControllerOptions {
  readonly host: Pick<OperatorHost, 'watch' | 'finalizers'>;
  readonly status: StatusPublisher;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly queueMetrics?: WorkQueueMetrics;
  /** Between looks at what the status should say; the publisher writes what changed. */
  readonly reportIntervalMs?: number;
}

/** An object, and what became of its spec when it was last looked at. */
export interface KnownObject<Spec> {
  readonly name: string;
  readonly uid: string;
  readonly spec: Spec;
  /** Somebody deleted it, and its finalizer keeps it for now. */
  readonly deleting: boolean;
  readonly specStatus?: SpecStatus;
}

const REPORT_INTERVAL_MS = 2_000;
/** Whatever hinders work on an object is often mended from outside, such as a Secret that can be read again. */
const RETRY_CAP_MS = 30_000;

/**
 * The skeleton of all controllers: fetch → gone? → deleting? → finalizer → act (suspending is
 * part of the settings) → report. It works on one key at a time and keeps no state that the API server
 * and the engine do not have, but for the last status of each object's spec.
 */
export class Controller<Spec> {
  readonly #kind: ControlledKind<Spec>;
  readonly #options: ControllerOptions;
  readonly #reporter: ObjectReporter<Spec>;
  readonly #queue: WorkQueue;
  readonly #source: Source<CustomObject<Spec>>;
  /** Uids of objects that were taken back before they went. */
  readonly #finished = new Set<string>();
  /** Names of objects that have been looked at since the start. */
  readonly #looked = new Set<string>();
  readonly #lookedListeners = new Set<() => void>();

  constructor(kind: ControlledKind<Spec>, options: ControllerOptions) {
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
        if (queriesForWork(next, previous)) this.#queue.add(next.name);
      },
      deleted: (last) => {
        this.#reporter.forget(last);
        if (!this.#finished.delete(last.uid)) this.#queue.add(last.name);
      },
    });
  }

  /** Works until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#source.run(signal),
      this.#queue.run(signal),
      this.#reportRegularly(signal),
    ]);
  }

  /** Resolves when every object of the first list has been looked at, or the kind is not installed. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.#source.ready(signal);
    const first = this.objects().map(({ name }) => name);
    const allLooked = (): boolean => first.every((name) => this.#looked.has(name));
    await whenTrue(allLooked, this.#lookedListeners, signal);
  }

  /** The objects that there are, whatever their specs are worth, but for those that another process looks after. */
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
    if (object === undefined || object.deleting) this.#markLooked(name);
    if (object === undefined) return this.#takeBack(name, signal);
    if (object.deleting) return this.#finish(object, signal);
    if (this.#isAnothers(object)) return this.#leave(object, signal);
    const lacks = kind.finalizer !== undefined && !object.finalizers.includes(kind.finalizer);
    if (lacks) {
      return this.#options.host.finalizers.add(kind.resource, object, kind.finalizer);
    }
    const { specStatus, againMs } = await kind.act(object, signal);
    this.#reporter.reconciled(object, specStatus);
    this.#markLooked(name);
    if (specStatus.kind === 'waiting') return { kind: 'failed', reason: specStatus.message };
    return againMs === undefined ? { kind: 'done' } : { kind: 'again', afterMs: againMs };
  }

  #isAnothers(object: CustomObject<Spec>): boolean {
    return this.#kind.isAnothers?.(object) === true;
  }

  /** Another process has come to look after the object. */
  async #leave(object: CustomObject<Spec>, signal: AbortSignal): Promise<WorkOutcome> {
    const { finalizer, resource } = this.#kind;
    this.#reporter.forget(object);
    const outcome = await this.#takeBack(object.name, signal);
    this.#markLooked(object.name);
    const isMarked = finalizer !== undefined && object.finalizers.includes(finalizer);
    if (outcome.kind !== 'done' || !isMarked) return outcome;
    return this.#options.host.finalizers.remove(resource, object, finalizer);
  }

  #markLooked(name: string): void {
    this.#looked.add(name);
    for (const listener of this.#lookedListeners) listener();
  }

  async #takeBack(name: string, signal: AbortSignal): Promise<WorkOutcome> {
    const removed = await this.#kind.remove(name, signal);
    return removed.kind === 'removed' ? { kind: 'done' } : removed;
  }

  /** The object is going: take back what it gave, then let it go. */
  async #finish(object: CustomObject<Spec>, signal: AbortSignal): Promise<WorkOutcome> {
    const { finalizer, resource } = this.#kind;
    if (finalizer === undefined || !object.finalizers.includes(finalizer)) {
      return this.#takeBack(object.name, signal);
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

/** Resolves once the condition holds, asked again whenever a listener is called. */
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
