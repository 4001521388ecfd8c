import type { ApiResource, Projected, Projection, Source, SourceHandler } from './source.ts';
import type { WorkOutcome } from './work-queue.ts';

/**
 * What controllers need of an operator. Everything above this folder knows only this interface, so
 * that the base class behind it can be exchanged.
 */
export interface OperatorHost {
  /** A live view of a resource; whoever asks for it runs it. */
  watch<T extends Projected>(
    resource: ApiResource,
    project: Projection<T>,
    handler: SourceHandler<T>,
  ): Source<T>;
  readonly finalizers: Finalizers;
  /** Something to run from {@link start} to {@link close}. */
  add(part: OperatorPart): void;
  /** Starts all parts, and resolves when they are ready. Rejects when closed before. */
  start(): Promise<void>;
  /** Stops all parts and resolves when they have ended. Rejects with the failure of a part that failed. */
  close(): Promise<void>;
}

/** A controller, a status publisher, a source. */
export interface OperatorPart {
  run(signal: AbortSignal): Promise<void>;
  ready?(signal: AbortSignal): Promise<void>;
}

/**
 * Adds and removes finalizers, each write guarded by the resourceVersion so that no other
 * controller's finalizer is lost. The watch brings the changed object back, and work goes on then.
 */
export interface Finalizers {
  add(
    resource: ApiResource,
    object: FinalizedObject,
    finalizer: string,
    signal: AbortSignal,
  ): Promise<WorkOutcome>;
  /** The object is being deleted, and what the finalizer stood for is done. */
  remove(
    resource: ApiResource,
    object: FinalizedObject,
    finalizer: string,
    signal: AbortSignal,
  ): Promise<WorkOutcome>;
}

export interface FinalizedObject {
  readonly name: string;
  readonly resourceVersion: string;
  readonly finalizers: readonly string[];
}
