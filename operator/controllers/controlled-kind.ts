import { type Condition, parseConditions } from '../kubernetes/conditions.ts';
import { identify, metadataOf } from '../kubernetes/resource.ts';
import type { ApiResource, Projected, Projection } from '../kubernetes/source.ts';
import { isRecord } from '../model/is-record.ts';
import type { ConditionClaim, SpecStatus } from './conditions.ts';

/** What one kind of custom resource adds to the skeleton that all share. */
export interface ControlledKind<Spec> {
  readonly resource: ApiResource;
  readonly kind: string;
  /** Keeps a deleted object until `remove` has done its work; absent where nothing is to be kept. */
  readonly finalizer?: string;
  /** Fields of the status that are written within ten seconds of their change, not a minute. */
  readonly promptFields?: readonly string[];
  /** Whether another process looks after an object: what it gave here is taken back, and nothing is written into it. */
  isAnothers?(object: CustomObject<Spec>): boolean;
  /** Looks at the newest spec and puts it in force if it can. An unusable one changes nothing. */
  act(object: CustomObject<Spec>, signal: AbortSignal): Promise<Acted>;
  /** Takes back what the object gave; also called when the object is gone. Idempotent. */
  remove(name: string, signal: AbortSignal): Promise<Removed>;
  /** What the status says, computed from memory. */
  report(object: CustomObject<Spec>, specStatus: SpecStatus): Report;
}

export interface Acted {
  readonly specStatus: SpecStatus;
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
  readonly fields: object;
}

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

/** Reads any of the kinds; the API server has held their specs against the schemas. */
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
export function queriesForWork(
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
