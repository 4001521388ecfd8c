import { type Condition, parseConditions } from '../kubernetes/conditions.ts';
import { identify, metadataOf } from '../kubernetes/resource.ts';
import type { ApiResource, Projected, Projection } from '../kubernetes/source.ts';
import { isRecord } from '../model/is-record.ts';
import type { ConditionClaim, SpecStatus } from './conditions.ts';

/** The parts of a controller that differ between kinds of custom resources. */
export interface ControlledKind<Spec> {
  readonly resource: ApiResource;
  readonly kind: string;
  /** Finalizer that keeps a deleted object until `remove` succeeds; absent without cleanup. */
  readonly finalizer?: string;
  /** Status fields that are written within ten seconds of a change. Others take up to a minute. */
  readonly promptFields?: readonly string[];
  /**
   * Returns whether another process controls an object. Its settings are removed here, and nothing
   * is written into the object.
   */
  isAnothers?(object: CustomObject<Spec>): boolean;
  /** Applies the newest spec. An unusable spec changes nothing. */
  act(object: CustomObject<Spec>, signal: AbortSignal): Promise<Acted>;
  /** Removes the settings of a deleted object. Idempotent. */
  remove(name: string, signal: AbortSignal): Promise<Removed>;
  /** Returns the contents of the status, computed from memory. */
  report(object: CustomObject<Spec>, specStatus: SpecStatus): Report;
}

export interface Acted {
  readonly specStatus: SpecStatus;
  /** Reconcile again after this time, because something outside of the object counts too. */
  readonly againMs?: number;
}

export type Removed =
  /** `note` is the text of an Event; absent if nothing happened. */
  | { readonly kind: 'removed'; readonly note?: string }
  | { readonly kind: 'failed'; readonly reason: string };

export interface Report {
  /** False while the engine starts and has not evaluated the object itself. */
  readonly settled: boolean;
  readonly claims: readonly ConditionClaim[];
  /** The status fields beside conditions and generation. */
  readonly fields: object;
}

/** A custom resource in the memory of the controllers. */
export interface CustomObject<Spec> extends Projected {
  readonly resourceVersion: string;
  /** Counts the changes of the spec. */
  readonly generation: number;
  /** The last generation that the operator reported; 0 if it reported none. */
  readonly observedGeneration: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Whether it is deleted and a finalizer keeps it. */
  readonly deleting: boolean;
  readonly finalizers: readonly string[];
  /** Valid by the schema in crds/. */
  readonly spec: Spec;
  /** The conditions of its status at the API server. */
  readonly conditions: readonly Condition[];
}

/** Returns the projection of a kind. The API server has validated the specs against the schemas. */
export function customObject<Spec>(): Projection<CustomObject<Spec>> {
  return (object) => {
    const identity = identify(object);
    if (identity === undefined) return undefined;
    const { generation, creationTimestamp, deletionTimestamp, finalizers } = metadataOf(object);
    const { spec = {}, status } = object;
    const observed = isRecord(status) ? status['observedGeneration'] : undefined;
    return {
      ...identity,
      generation: typeof generation === 'number' ? generation : 0,
      observedGeneration: typeof observed === 'number' ? observed : 0,
      createdAt: typeof creationTimestamp === 'string' ? Date.parse(creationTimestamp) : 0,
      deleting: deletionTimestamp !== undefined,
      finalizers: Array.isArray(finalizers) ? finalizers.map(String) : [],
      spec: spec as Spec,
      conditions: parseConditions(status),
    };
  };
}

/** Returns whether a change needs a reconciliation. The operator's own status changes do not. */
export function needsReconcile(
  next: CustomObject<unknown>,
  previous: CustomObject<unknown> | undefined,
): boolean {
  return (
    previous === undefined ||
    next.generation !== previous.generation ||
    next.deleting !== previous.deleting ||
    next.finalizers.join() !== previous.finalizers.join()
  );
}
