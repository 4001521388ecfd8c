import type { RawObject } from '../../kubernetes/source.ts';
import {
  type GpuFraction,
  gpuFraction,
  gpuGroups,
  greaterFraction,
  isReservation,
} from './gpu-fraction.ts';
import { greaterShares, type HamiPod, hamiPod } from './hami-pod.ts';
import { textAt } from '../../kubernetes/raw-fields.ts';

/**
 * What a pod holds of GPUs that no resource of it counts
 * (docs/explanation/gpus.md#hami, docs/explanation/gpus.md#kai-and-runai). Plain, bounded values: most pods have none.
 */
export interface GpuShares {
  readonly hami?: HamiPod;
  readonly fraction?: GpuFraction;
  /** The groups of those that share a GPU, one for each: whose parts it has, or which it holds for them. */
  readonly groups?: readonly string[];
}

/** Reads what a pod says of such shares; undefined where it says nothing. */
export function gpuShares(metadata: RawObject, spec: RawObject): GpuShares | undefined {
  const fraction = gpuFraction(metadata);
  const inGroups = fraction !== undefined || isReservation(textAt(metadata, 'namespace') ?? '');
  const groups = inGroups ? gpuGroups(metadata) : undefined;
  const hami = hamiPod(metadata, spec);
  const isEmpty = hami === undefined && fraction === undefined && groups === undefined;
  return isEmpty ? undefined : { hami, fraction, groups };
}

/** True when both say the same. */
export function sameShares(a: GpuShares | undefined, b: GpuShares | undefined): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/**
 * What holds of a pod that is bound: annotations can be rewritten while it runs, by its tenant too, and
 * none of these ways of sharing gives anything back before the pod ends. So the most that it has said
 * counts (docs/explanation/security.md#d-33).
 */
export function greaterOf(
  before: GpuShares | undefined,
  now: GpuShares | undefined,
): GpuShares | undefined {
  if (before === undefined || now === undefined || sameShares(before, now)) return before ?? now;
  return {
    hami: greaterShares(before.hami, now.hami),
    fraction: greaterFraction(before.fraction, now.fraction),
    groups: now.groups ?? before.groups,
  };
}
