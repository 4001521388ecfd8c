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
 * What controllers need of an operator. Everything above this folder knows only these members, so
 * that the base class behind them can be exchanged.
 */
export type OperatorHost = Pick<OperatorBase, 'watch' | 'finalizers' | 'add' | 'start' | 'close'>;

/** A controller, a status publisher, a source. */
export interface OperatorComponent {
  run(signal: AbortSignal): Promise<void>;
  ready?(signal: AbortSignal): Promise<void>;
}

/**
 * Adds and removes finalizers, each write guarded by the resourceVersion so that no other
 * controller's finalizer is lost. The watch brings the changed object back, and work goes on then.
 */
export interface Finalizers {
  add(resource: ApiResource, object: FinalizedObject, finalizer: string): Promise<WorkOutcome>;
  /** The object is being deleted, and what the finalizer stood for is done. */
  remove(resource: ApiResource, object: FinalizedObject, finalizer: string): Promise<WorkOutcome>;
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

/** After a conflict, unless the watch brings the newer version first. */
const CONFLICT_RETRY_MS = 1_000;

/** The API server did not take a write. */
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
 * `@dot-i/k8s-operator`'s base class, of which the lifecycle and the finalizer logic are used
 * (docs/explanation/adr/0004-watch-layer-of-our-own.md). The class is not exported, so that nobody calls the base's
 * own watches and status writes, which exit the process, miss deletions or swallow failures.
 */
class OperatorBase extends Operator {
  readonly finalizers: Finalizers;
  readonly #options: OperatorHostOptions;
  readonly #stopping = new AbortController();
  readonly #parts: OperatorComponent[] = [];
  readonly #running: Promise<void>[] = [];

  constructor(options: OperatorHostOptions) {
    super(plainLogger(options.logger));
    this.#options = options;
    this.kubeConfig = options.connection.kubeConfig;
    this.k8sApi = options.connection.client(CoreV1Api);
    this.finalizers = {
      add: (resource, object, finalizer) => this.#finalize(resource, object, finalizer, {}),
      remove: (resource, object, finalizer) =>
        this.#finalize(resource, object, finalizer, {
          deletionTimestamp: new Date(options.clock.now()),
        }),
    };
  }

  /** A live view of a resource. The caller runs it. */
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

  /** Something to run from {@link start} to {@link close}. */
  add(part: OperatorComponent): void {
    this.#parts.push(part);
  }

  override stop(): void {
    this.#stopping.abort();
  }

  /** Stops all parts and resolves when they have ended. Rejects with the failure of a part that failed. */
  async close(): Promise<void> {
    this.stop();
    await Promise.all(this.#running);
  }

  /** Called by {@link start}. */
  protected override async init(): Promise<void> {
    const { signal } = this.#stopping;
    for (const part of this.#parts) this.#run(part);
    await Promise.all(this.#parts.map(async (part) => part.ready?.(signal)));
  }

  /** Throws {@link WriteRefused}; with a conflict when the object has changed since `meta` was read. */
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

  /** Lets the base decide what is to be done, with an event such as it would have from its own watch. */
  async #finalize(
    resource: ApiResource,
    { name, resourceVersion, finalizers }: FinalizedObject,
    finalizer: string,
    deletion: { readonly deletionTimestamp?: Date },
  ): Promise<WorkOutcome> {
    // The base hands `meta` through to setResourceFinalizers: its id is the path that is written to.
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

  /** A part that fails stops the others; {@link close} tells why. */
  #run(part: OperatorComponent): void {
    const running = part.run(this.#stopping.signal);
    this.#running.push(running);
    running.catch((error: unknown) => {
      this.#options.logger.error('[controller] a part of the operator failed', { error });
      this.stop();
    });
  }
}

/** The base logs plain text only. */
function plainLogger(logger: Logger) {
  return {
    debug: (message: string) => logger.debug(`[controller] ${message}`),
    info: (message: string) => logger.info(`[controller] ${message}`),
    warn: (message: string) => logger.warn(`[controller] ${message}`),
    error: (message: string) => logger.error(`[controller] ${message}`),
  };
}
