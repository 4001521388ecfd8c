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
 * Shares of GPUs that a pod has without an extended resource that counts them
 * (docs/explanation/gpus.md#hami, docs/explanation/gpus.md#kai-and-runai). Bounded values of plain
 * JSON; most pods have none.
 */
export interface GpuShares {
  readonly hami?: HamiPod;
  readonly fraction?: GpuFraction;
  /** One group for each shared GPU: that of which the pod has a part, or that it reserves. */
  readonly groups?: readonly string[];
}

/** Reads the shares from a pod's annotations and resources; undefined without any. */
export function gpuShares(metadata: RawObject, spec: RawObject): GpuShares | undefined {
  const fraction = gpuFraction(metadata);
  const inGroups = fraction !== undefined || isReservation(textAt(metadata, 'namespace') ?? '');
  const groups = inGroups ? gpuGroups(metadata) : undefined;
  const hami = hamiPod(metadata, spec);
  const isEmpty = hami === undefined && fraction === undefined && groups === undefined;
  return isEmpty ? undefined : { hami, fraction, groups };
}

/** True when both are equal. */
export function sameShares(a: GpuShares | undefined, b: GpuShares | undefined): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/**
 * Returns the larger shares of two versions of a bound pod (docs/explanation/security.md#d-33). Its
 * tenant can rewrite annotations while it runs, and no GPU is returned before the pod ends.
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
