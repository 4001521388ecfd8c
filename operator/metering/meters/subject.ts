import { divideHalfUp } from '../../model/decimal.ts';
import { gpusOf } from '../../model/gpu-units.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import { keyOf } from '../timelines/shared-values.ts';
import type { GpuQuantity } from './meter.ts';
import type { Evidence, Mapped } from './tally.ts';

/** What determines a rate, and why. */
export interface Subject {
  readonly kind: Evidence['kind'];
  readonly namespace?: string;
  /** Why it belongs to this tenant cluster. */
  readonly ownedBy: string;
  readonly requests?: { readonly cpu: number; readonly memoryGib: number };
  readonly sizeGib?: number;
  readonly gpus?: {
    readonly type: string;
    readonly profile: string;
    readonly devices: number;
    /** GPU-equivalents of all of them. */
    readonly gpus: number;
    /** What was billed; absent where an earlier release explained it. */
    readonly countedAs?: GpuQuantity;
    /** For `devices`: what they counted for, less than `devices` where claims share one. */
    readonly counted?: number;
    /** Why this share of a device counts; absent where the profile explains it. */
    readonly sharedBy?: string;
  };
  /** Absent for an unknown node. */
  readonly node?: {
    readonly capacityType: string;
    readonly gpuType?: string;
    readonly down?: true;
    readonly cpu?: number;
    readonly memoryGib?: number;
    readonly decidedBy?: NodeState['decidedBy'];
  };
}

/** Returns a function that gives equal values one number, in the order of their first use. */
export function createNumbering<T = unknown>(onFirst?: (value: T) => void): (value: T) => number {
  const numbers = new Map<T, number>();
  return (value) => {
    const known = numbers.get(value);
    if (known !== undefined) return known;
    onFirst?.(value);
    numbers.set(value, numbers.size);
    return numbers.size - 1;
  };
}

/** Makes keys of subjects from their shared values, which is faster than from texts. */
export function createSubjectKeys(): (evidence: Evidence) => string {
  const numberOf = createNumbering();
  return ({ kind, object, state, gpus, node, mapped = false }) => {
    const rate =
      gpus === undefined
        ? numberOf(state.requests ?? state)
        : `${keyOf([gpus.device.type, gpus.device.profile])}×${gpus.devices}×${gpus.units}×${gpus.asDevices ?? ''}×${gpus.sharedBy ?? ''}`;
    return `${kind} ${mapped} ${numberOf(object.namespace)} ${numberOf(state.labels)} ${numberOf(node)} ${rate}`;
  };
}

/** Returns the subject of a share. */
export function subjectOf({ kind, object, state, gpus, node, mapped }: Evidence): Subject {
  const { labels, requests, size } = state;
  return {
    kind,
    ...(object.namespace === '' ? {} : { namespace: object.namespace }),
    ownedBy: ownerOf(kind, labels, mapped),
    ...(requests === undefined || gpus !== undefined
      ? {}
      : { requests: { cpu: units(requests.cpu), memoryGib: gib(requests.memory) } }),
    ...(size === undefined ? {} : { sizeGib: gib(size) }),
    ...(gpus === undefined
      ? {}
      : {
          gpus: {
            type: gpus.device.type,
            profile: gpus.device.profile,
            devices: gpus.devices,
            gpus: round(gpusOf(gpus.units)),
            ...(gpus.asDevices === undefined
              ? { countedAs: 'equivalents' }
              : { countedAs: 'devices', counted: round(gpusOf(gpus.asDevices)) }),
            sharedBy: gpus.sharedBy,
          },
        }),
    ...(node === undefined ? {} : { node: nodeOf(kind, node, gpus !== undefined) }),
  };
}

/** docs/explanation/discovery.md#namespaces-that-a-syncer-maps */
const MAPPED =
  'the labels vcluster.loft.sh/vcluster-name and vcluster.loft.sh/vcluster-namespace of its Namespace';
/** docs/how-to/tenants/namespaces.md */
const NAMED = 'the label or annotation of its Namespace that names the tenant';

function ownerOf(
  kind: Evidence['kind'],
  labels: ObjectLabels | undefined,
  mapped: Mapped | undefined,
): string {
  if (mapped === true) return MAPPED;
  if (mapped === 'named') return NAMED;
  if (kind === 'Node') return 'labels of the node, or it is a private node of the tenant cluster';
  if (kind === 'Workload') return 'it is the control plane of the tenant cluster';
  const { managedBy, claim = '' } = labels ?? {};
  if (mapped === 'labelled') return `labels that its own controllers write: ${claim}`;
  if (managedBy !== undefined) return `vcluster.loft.sh/managed-by=${managedBy}`;
  return 'the only tenant cluster of its namespace, or its control plane';
}

function nodeOf(
  kind: Evidence['kind'],
  state: NodeState,
  ofGpus: boolean,
): NonNullable<Subject['node']> {
  const { capacityType, gpuType, down, cpu, memory, decidedBy } = state;
  const { gpu, dedicated, ...others } = decidedBy ?? {};
  const ofNode = kind === 'Node';
  const decisions = {
    ...others,
    gpu: ofGpus ? gpu : undefined,
    dedicated: ofNode ? dedicated : undefined,
  };
  const isDecided = Object.values(decisions).some((label) => label !== undefined);
  return {
    capacityType,
    ...(ofGpus && { gpuType }),
    ...(down && { down }),
    ...(ofNode && { cpu: units(cpu), memoryGib: gib(memory) }),
    ...(isDecided && { decidedBy: decisions }),
  };
}

function units(nanos: bigint): number {
  return Number(nanos) / 1e9;
}

function gib(nanoBytes: bigint): number {
  return Number(divideHalfUp(nanoBytes, 2n ** 30n)) / 1e9;
}

/** Rounds to nine decimals. */
export function round(quantity: number): number {
  return Math.round(quantity * 1e9) / 1e9;
}
