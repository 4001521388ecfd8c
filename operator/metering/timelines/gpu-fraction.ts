import type { RawObject } from '../../kubernetes/source.ts';
import { amountAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';

/**
 * A part of a GPU that KAI Scheduler or Run:ai gives a pod by annotations, without any resource. A
 * reservation pod of theirs takes the GPU meanwhile (docs/explanation/gpus.md#kai-and-runai;
 * https://github.com/kai-scheduler/KAI-Scheduler, `pkg/common/resources/gpu_sharing.go`).
 */
export interface GpuFraction {
  /** Billionths of a device; absent where memory is requested. */
  readonly nanos?: number;
  /** MiB of each device. */
  readonly memory?: number;
  /** Number of devices; it gets that much of each. */
  readonly count: number;
}

const FRACTION = 'gpu-fraction';
const MEMORY = 'gpu-memory';
const COUNT = 'gpu-fraction-num-devices';
const GROUP = 'runai-gpu-group';
/** Namespaces of the reservation pods, whose GPUs other pods share. */
const RESERVATIONS: readonly string[] = ['kai-resource-reservation', 'runai-reservation'];

const MOST_DEVICES = 64;
const MOST_GROUPS = 64;
const NANOS = 1_000_000_000n;

/** Returns the part that a pod's annotations request; undefined without a valid request. */
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

/** Returns a pod's GPU groups, sorted: a label for the first device, one more for each further. */
export function gpuGroups(metadata: RawObject): readonly string[] | undefined {
  const labels = recordAt(metadata, 'labels');
  const names = Object.keys(labels).filter(
    (name) => name === GROUP || name.startsWith(`${GROUP}/`),
  );
  if (names.length === 0) return undefined;
  const groups = new Set(names.slice(0, MOST_GROUPS).flatMap((name) => textAt(labels, name) ?? []));
  return groups.size === 0 ? undefined : [...groups].toSorted();
}

/** Whether a pod in this namespace reserves a GPU for the pods that share it. */
export function isReservation(namespace: string): boolean {
  return RESERVATIONS.includes(namespace);
}

/** Returns the larger request; the first where they cannot be compared. */
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
