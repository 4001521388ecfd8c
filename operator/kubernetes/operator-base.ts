import dotI, { ResourceEventType, type ResourceMeta } from '@dot-i/k8s-operator';
import { CoreV1Api } from '@kubernetes/client-node';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import type { ReflectorMetrics } from './metrics.ts';
import { describeFailure, type RequestFailure } from './outcome.ts';
import { Reflector } from './reflector.ts';
import { resourcePath } from './resource.ts';
import type { ApiResource, Projected, Projection, Source, SourceHandler } from './source.ts';
import type { WorkOutcome } from './work-queue.ts';

/**
 * The members of the operator that controllers use. Code above this folder knows only these, so the
 * base class can be replaced.
 */
export type OperatorHost = Pick<OperatorBase, 'watch' | 'finalizers' | 'add' | 'start' | 'close'>;

/** A controller, a status publisher, a source. */
export interface OperatorComponent {
  run(signal: AbortSignal): Promise<void>;
  ready?(signal: AbortSignal): Promise<void>;
}

export interface FinalizedObject {
  readonly name: string;
  readonly resourceVersion: string;
  readonly finalizers: readonly string[];
}

interface OperatorHostOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: ReflectorMetrics;
}

export function createOperatorHost(options: OperatorHostOptions): OperatorHost {
  return new OperatorBase(options);
}

/** Retry delay after a conflict; the watch may bring the newer version earlier. */
const CONFLICT_RETRY_MS = 1_000;

class WriteRefused extends Error {
  readonly failure: RequestFailure;

  constructor(what: string, failure: RequestFailure) {
    super(`${what}: ${describeFailure(failure)}`);
    this.name = 'WriteRefused';
    this.failure = failure;
  }
}

/** The package is CommonJS: Node and bundlers import the module, other loaders its `default`. */
const Operator = 'default' in dotI ? dotI.default : dotI;

/**
 * Extends the base class of `@dot-i/k8s-operator` for its lifecycle and finalizer logic
 * (docs/explanation/adr/0004-watch-layer-of-our-own.md). The class is not exported: the base's
 * watches and status writes exit the process, miss deletions or swallow failures.
 */
class OperatorBase extends Operator {
  /**
   * Adds and removes finalizers. Each write is guarded by the resourceVersion, so no other
   * controller's finalizer is lost. Work continues when the watch brings the changed object.
   */
  readonly finalizers;
  readonly #options: OperatorHostOptions;
  readonly #stopping = new AbortController();
  readonly #components: OperatorComponent[] = [];
  readonly #running: Promise<void>[] = [];

  constructor(options: OperatorHostOptions) {
    super(plainLogger(options.logger));
    this.#options = options;
    this.kubeConfig = options.connection.kubeConfig;
    this.k8sApi = options.connection.client(CoreV1Api);
    this.finalizers = {
      add: (resource: ApiResource, object: FinalizedObject, finalizer: string) =>
        this.#finalize(resource, object, finalizer, {}),
      /** Call it when the object is being deleted and the finalizer's cleanup is done. */
      remove: (resource: ApiResource, object: FinalizedObject, finalizer: string) =>
        this.#finalize(resource, object, finalizer, {
          deletionTimestamp: new Date(options.clock.now()),
        }),
    };
  }

  /** Returns a live view of a resource. The caller runs it. */
  watch<T extends Projected>(
    resource: ApiResource,
    project: Projection<T>,
    handler: SourceHandler<T>,
  ): Source<T> {
    const { connection, clock, random, logger, metrics } = this.#options;
    return new Reflector({
      connection,
      resource,
      project,
      handlers: [handler],
      clock,
      random,
      logger,
      metrics,
    });
  }

  /** Adds a component that runs from {@link start} to {@link close}. */
  add(component: OperatorComponent): void {
    this.#components.push(component);
  }

  override stop(): void {
    this.#stopping.abort();
  }

  /** Stops all components; resolves when they have ended. Rejects with a failed one's error. */
  async close(): Promise<void> {
    this.stop();
    await Promise.all(this.#running);
  }

  /** Called by {@link start}. */
  protected override async init(): Promise<void> {
    const { signal } = this.#stopping;
    for (const component of this.#components) this.#run(component);
    await Promise.all(this.#components.map(async (component) => component.ready?.(signal)));
  }

  /** Throws {@link WriteRefused}: a conflict if the object changed since `meta` was read. */
  protected override async setResourceFinalizers(
    meta: ResourceMeta,
    finalizers: string[],
  ): Promise<void> {
    const outcome = await this.#options.connection.request(meta.id, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers, resourceVersion: meta.resourceVersion } },
    });
    if (outcome.kind !== 'ok') throw new WriteRefused(`finalizers of "${meta.name}"`, outcome);
  }

  /** Runs the base's finalizer logic with an event like one of its own watch. */
  async #finalize(
    resource: ApiResource,
    { name, resourceVersion, finalizers }: FinalizedObject,
    finalizer: string,
    deletion: { readonly deletionTimestamp?: Date },
  ): Promise<WorkOutcome> {
    // The base passes `meta` to setResourceFinalizers: its id is the path of the write.
    const id = resourcePath(resource, name);
    const meta: ResourceMeta = { id, name, resourceVersion, apiVersion: '', kind: '' };
    const metadata = { name, resourceVersion, finalizers: [...finalizers], ...deletion };
    const event = { meta, type: ResourceEventType.Modified, object: { metadata } };
    try {
      await this.handleResourceFinalizer(event, finalizer, () => Promise.resolve());
      return { kind: 'done' };
    } catch (error) {
      if (!(error instanceof WriteRefused)) throw error;
      const { failure } = error;
      if (failure.kind === 'status' && failure.code === 404) return { kind: 'done' };
      if (failure.kind === 'status' && failure.code === 409) {
        return { kind: 'again', afterMs: CONFLICT_RETRY_MS };
      }
      return { kind: 'failed', reason: error.message };
    }
  }

  /** Runs a component. If it fails, the others stop and {@link close} rejects with its error. */
  #run(component: OperatorComponent): void {
    const running = component.run(this.#stopping.signal);
    this.#running.push(running);
    running.catch((error: unknown) => {
      this.#options.logger.error('[controller] a component of the operator failed', { error });
      this.stop();
    });
  }
}

/** Adapts the logger for the base, which logs plain text only. */
function plainLogger(logger: Logger) {
  return {
    debug: (message: string) => logger.debug(`[controller] ${message}`),
    info: (message: string) => logger.info(`[controller] ${message}`),
    warn: (message: string) => logger.warn(`[controller] ${message}`),
    error: (message: string) => logger.error(`[controller] ${message}`),
  };
}
