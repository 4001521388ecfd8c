import { CoreV1Api, type KubernetesObject } from '@kubernetes/client-node';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { applyStatus } from './apply-status.ts';
import type { Connection } from './connection.ts';
import {
  Operator,
  type ResourceEvent,
  ResourceEventType,
  type ResourceMeta,
  ResourceMetaImpl,
} from './dot-i.ts';
import type { FinalizedObject, Finalizers, OperatorHost, OperatorPart } from './operator-host.ts';
import { describeFailure, isRawObject, type RequestFailure } from './outcome.ts';
import { resourcePath } from './paths.ts';
import { createReflector } from './reflector.ts';
import type { ReflectorMetrics } from './reflector-metrics.ts';
import type { ApiResource, Projected, Projection, Source, SourceHandler } from './source.ts';
import { createResourceEvents } from './resource-events.ts';
import type { WorkOutcome } from './work-queue.ts';
import type { WorkQueueMetrics } from './work-queue-metrics.ts';

export interface OperatorBaseOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: ReflectorMetrics;
  readonly queueMetrics?: WorkQueueMetrics;
}

/** The API server did not take a write. `failure` says why. */
export class WriteRefused extends Error {
  readonly failure: RequestFailure;

  constructor(what: string, failure: RequestFailure) {
    super(`${what}: ${describeFailure(failure)}`);
    this.name = 'WriteRefused';
    this.failure = failure;
  }
}

/** After a conflict, unless the watch brings the newer version first. */
const CONFLICT_RETRY_MS = 1_000;

/**
 * `@dot-i/k8s-operator`'s base class, made to work with the client library of today (docs/adr/0004).
 * Its lifecycle and its finalizer logic are kept. Overridden are the parts that exit the process,
 * miss deletions, build broken addresses or swallow failures; the base's own versions of those are
 * never called.
 */
export class OperatorBase extends Operator implements OperatorHost {
  readonly finalizers: Finalizers;
  readonly #options: OperatorBaseOptions;
  readonly #stopping = new AbortController();
  readonly #parts: OperatorPart[] = [];
  readonly #running: Promise<void>[] = [];
  /** By the `id` that the base gives its metadata. */
  readonly #resources = new Map<string, ApiResource>();

  constructor(options: OperatorBaseOptions) {
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

  watch<T extends Projected>(
    resource: ApiResource,
    project: Projection<T>,
    handler: SourceHandler<T>,
  ): Source<T> {
    const { connection, clock, random, logger, metrics } = this.#options;
    return createReflector({
      connection,
      resource,
      project,
      handlers: [handler],
      clock,
      random,
      logger,
      ...(metrics === undefined ? {} : { metrics }),
    });
  }

  add(part: OperatorPart): void {
    this.#parts.push(part);
  }

  override stop(): void {
    this.#stopping.abort();
  }

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

  /** Resolves when the first list is in. Events of one object are handled one at a time. */
  protected override async watchResource(
    group: string,
    version: string,
    plural: string,
    onEvent: (event: ResourceEvent) => Promise<void>,
    namespace?: string,
  ): Promise<void> {
    const { clock, logger, queueMetrics } = this.#options;
    const resource = { group, version, plural, ...(namespace === undefined ? {} : { namespace }) };
    this.#remember(resource);
    const events = createResourceEvents({
      plural,
      onEvent,
      clock,
      logger,
      ...(queueMetrics === undefined ? {} : { queueMetrics }),
    });
    const source = this.watch(resource, events.project, events.handler);
    this.#run(source);
    this.#run(events);
    await source.ready(this.#stopping.signal);
  }

  protected override getCustomResourceApiUri(
    group: string,
    version: string,
    plural: string,
    namespace?: string,
  ): string {
    const server = this.kubeConfig.getCurrentCluster()?.server ?? '';
    const resource = { group, version, plural, ...(namespace === undefined ? {} : { namespace }) };
    return server.replace(/\/+$/, '') + resourcePath(resource);
  }

  protected override async setResourceStatus(
    meta: ResourceMeta,
    status: unknown,
  ): Promise<ResourceMeta | null> {
    return await this.#applyStatus(meta, status);
  }

  /** Like {@link setResourceStatus}: the operator always states its whole status. */
  protected override async patchResourceStatus(
    meta: ResourceMeta,
    status: unknown,
  ): Promise<ResourceMeta | null> {
    return await this.#applyStatus(meta, status);
  }

  /** Throws {@link WriteRefused}; with a conflict when the object has changed since `meta` was read. */
  protected override async setResourceFinalizers(
    meta: ResourceMeta,
    finalizers: string[],
  ): Promise<void> {
    const { connection } = this.#options;
    const path = resourcePath(this.#resourceOf(meta), meta.name);
    const outcome = await connection.request(path, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers, resourceVersion: meta.resourceVersion } },
    });
    if (outcome.kind !== 'ok') throw new WriteRefused(`finalizers of "${meta.name}"`, outcome);
  }

  protected override registerCustomResourceDefinition(): Promise<never> {
    return Promise.reject(
      new Error(
        'custom resource definitions are installed by `kubectl apply -k .`, not by the operator',
      ),
    );
  }

  /** Lets the base decide what is to be done, with an event such as it would have from its own watch. */
  async #finalize(
    resource: ApiResource,
    object: FinalizedObject,
    finalizer: string,
    deletion: { readonly deletionTimestamp?: Date },
  ): Promise<WorkOutcome> {
    const { name, resourceVersion } = object;
    const meta = { ...this.#remember(resource), name, resourceVersion, kind: '' };
    const metadata = { name, resourceVersion, finalizers: [...object.finalizers], ...deletion };
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

  async #applyStatus(meta: ResourceMeta, status: unknown): Promise<ResourceMeta | null> {
    if (!isRawObject(status)) throw new Error(`status of "${meta.name}": expected an object`);
    const target = { resource: this.#resourceOf(meta), kind: meta.kind, name: meta.name };
    const outcome = await applyStatus(this.#options.connection, target, status);
    if (outcome.kind === 'applied') {
      return ResourceMetaImpl.createWithId(meta.id, outcome.object as KubernetesObject);
    }
    const problem = outcome.kind === 'gone' ? 'no such object' : outcome.reason;
    throw new Error(`status of "${meta.name}": ${problem}`);
  }

  #resourceOf(meta: ResourceMeta): ApiResource {
    const resource = this.#resources.get(meta.id);
    if (resource === undefined) throw new Error(`operator: not a watched resource: "${meta.id}"`);
    const { group, version, plural } = resource;
    const { namespace } = meta;
    return { group, version, plural, ...(namespace === undefined ? {} : { namespace }) };
  }

  /** The parts of the base's metadata that the resource decides. */
  #remember(resource: ApiResource): Pick<ResourceMeta, 'id' | 'apiVersion'> {
    const { group, version, plural } = resource;
    const apiVersion = group === '' ? version : `${group}/${version}`;
    const id = `${plural}.${apiVersion}`;
    this.#resources.set(id, resource);
    return { id, apiVersion };
  }

  /** A part that fails stops the others; {@link close} tells why. */
  #run(part: OperatorPart): void {
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
