import { type Condition, parseConditions } from '../kubernetes/conditions.ts';
import { identify, metadataOf } from '../kubernetes/resource.ts';
import { isRecord } from '../model/is-record.ts';
import type { Projected, Projection } from '../kubernetes/source.ts';

/** A custom resource as the controllers keep it. */
export interface CustomObject<Spec> extends Projected {
  readonly resourceVersion: string;
  /** Counts the changes of the spec. */
  readonly generation: number;
  /** The generation that the operator reported last; 0 when it never did. */
  readonly observedGeneration: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Somebody deleted it, and a finalizer keeps it. */
  readonly deleting: boolean;
  readonly finalizers: readonly string[];
  /** As the schema in crds/ has admitted it. */
  readonly spec: Spec;
  /** Those of its status, as the API server has them. */
  readonly conditions: readonly Condition[];
}

/** Reads any of the three kinds; the API server has held their specs against the schemas. */
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

/** Whether a change asks for work: not when only the status moved, which is the operator's own doing. */
export function asksForWork(
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
