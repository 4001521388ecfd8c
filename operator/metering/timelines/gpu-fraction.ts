import type { RawObject } from '../../kubernetes/source.ts';
import { amountAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';

/**
 * KAI Scheduler and Run:ai give out parts of a GPU by annotations, without any resource; a pod of
 * theirs holds the GPU meanwhile (docs/explanation/gpus.md#kai-and-runai;
 * https://github.com/kai-scheduler/KAI-Scheduler, `pkg/common/resources/gpu_sharing.go`).
 */
export interface GpuFraction {
  /** Milliardths of a device; absent where memory is asked for. */
  readonly nanos?: number;
  /** MiB of a device. */
  readonly memory?: number;
  /** Of how many devices it holds that much. */
  readonly count: number;
}

const FRACTION = 'gpu-fraction';
const MEMORY = 'gpu-memory';
const COUNT = 'gpu-fraction-num-devices';
const GROUP = 'runai-gpu-group';
/** Namespaces of the pods that hold GPUs whose parts others have. */
const RESERVATIONS: readonly string[] = ['kai-resource-reservation', 'runai-reservation'];

const MOST_DEVICES = 64;
const MOST_GROUPS = 64;
const NANOS = 1_000_000_000n;

/** The part that a pod's annotations ask for; undefined where they ask for none that can be had. */
export function gpuFraction(metadata: RawObject): GpuFraction | undefined {
  const annotations = recordAt(metadata, 'annotations');
  const count = countIn(annotations);
  const nanos = amountAt(annotations, FRACTION);
  if (nanos !== undefined && nanos > 0n && nanos <= NANOS) return { nanos: Number(nanos), count };
  const memory = textAt(annotations, MEMORY) ?? '';
  return /^[1-9]\d{0,8}$/.test(memory) ? { memory: Number(memory), count } : undefined;
}

function countIn(annotations: RawObject): number {
  const text = textAt(annotations, COUNT) ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Math.min(Number(text), MOST_DEVICES) : 1;
}

/** The groups of a pod, sorted: the label itself, and one more for each further device. */
export function gpuGroups(metadata: RawObject): readonly string[] | undefined {
  const labels = recordAt(metadata, 'labels');
  const names = Object.keys(labels).filter(
    (name) => name === GROUP || name.startsWith(`${GROUP}/`),
  );
  if (names.length === 0) return undefined;
  const groups = new Set(names.slice(0, MOST_GROUPS).flatMap((name) => textAt(labels, name) ?? []));
  return groups.size === 0 ? undefined : [...groups].toSorted();
}

/** Whether a pod in this namespace holds a GPU on behalf of those that share it. */
export function isReservation(namespace: string): boolean {
  return RESERVATIONS.includes(namespace);
}

/** The one that asks for more; of two that cannot be compared the first. */
export function greaterFraction(
  before: GpuFraction | undefined,
  now: GpuFraction | undefined,
): GpuFraction | undefined {
  if (before === undefined || now === undefined) return before ?? now;
  return amountOf(now) > amountOf(before) && kindOf(now) === kindOf(before) ? now : before;
}

function amountOf({ nanos, memory, count }: GpuFraction): number {
  return (nanos ?? memory ?? 0) * count;
}

function kindOf({ nanos }: GpuFraction): 'fraction' | 'memory' {
  return nanos === undefined ? 'memory' : 'fraction';
}
