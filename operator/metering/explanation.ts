import type { NodeState } from '../observation/node-state.ts';
import type { ObjectLabels } from '../observation/object-labels.ts';
import { quantityOf } from '../model/catalog.ts';
import { divideHalfUp } from '../model/decimal.ts';
import { gpusOf } from '../model/gpu-parts.ts';
import type { Settled } from './credits.ts';
import type { GpuQuantity } from './meter.ts';
import type { Evidence } from './tally.ts';

/**
 * What stands behind the number of one event, as plain JSON. Quantities are in the event's unit,
 * rounded to nine decimals and signed; what was taken back is below zero.
 */
export interface Explanation {
  /** Event id. */
  readonly id: string;
  /** Measured inside the window. */
  readonly measured: number;
  /** Of closed windows, become known late. */
  readonly carried: number;
  /** Given back for what was billed too much; at most 0. */
  readonly givenBack: number;
  /** What shares are of, each said once. */
  readonly subjects: readonly Subject[];
  /** Names of nodes. */
  readonly nodes: readonly string[];
  readonly shares: readonly Share[];
  readonly rest: { readonly count: number; readonly quantity: number };
}

/** `node` is the number of its node in `nodes`, `from` and `to` are milliseconds after the start of the window. */
export type Share = readonly [
  subject: number,
  uid: string,
  name: string,
  node: number | null,
  from: number,
  to: number,
  quantity: number,
  carried: 0 | 1,
];

/** What a rate follows from, and who decided it. */
export interface Subject {
  readonly kind: Evidence['kind'];
  readonly namespace?: string;
  /** Why it is this tenant cluster's. */
  readonly ownedBy: string;
  readonly requests?: { readonly cpu: number; readonly memoryGib: number };
  readonly sizeGib?: number;
  readonly gpus?: {
    readonly type: string;
    readonly profile: string;
    readonly devices: number;
    /** GPU-equivalents of all of them. */
    readonly gpus: number;
    /** What was billed of them; absent where an earlier release explained it. */
    readonly countedAs?: GpuQuantity;
    /** With `devices`: what they counted for, below `devices` where claims share one. */
    readonly counted?: number;
  };
  /** Absent when its node was never seen. */
  readonly node?: {
    readonly capacityType: string;
    readonly gpuType?: string;
    readonly down?: true;
    readonly cpu?: number;
    readonly memoryGib?: number;
    readonly decidedBy?: NodeState['decidedBy'];
  };
}

/** Explains the event that was made of a charge. */
export function explain(id: string, settled: Settled): Explanation {
  const { charge, total } = settled;
  const divisor = Number(quantityOf(charge.identity.metric).divisor);
  const rounded = (amount: number): number => round(amount / divisor / 1e9);
  const { evidence: all = [], amounts = [], rest } = charge.shares ?? {};
  const subjects: Subject[] = [];
  const nodes: string[] = [];
  const subjectNumbers = createNumbering();
  const nodeNumbers = createNumbering();
  const keyOf = createSubjectKeys();
  const shares = all.map((evidence, index): Share => {
    const { object, state, from, to, carried } = evidence;
    const subject = subjectNumbers.of(keyOf(evidence), () => subjects.push(subjectOf(evidence)));
    const { node: name } = state;
    const node = name === undefined ? null : nodeNumbers.of(name, () => nodes.push(name));
    const quantity = rounded(amounts[index] ?? 0);
    return [subject, object.uid, object.name, node, from, to, quantity, carried ? 1 : 0];
  });
  return {
    id,
    measured: rounded(Number(charge.amount)),
    carried: rounded(Number(charge.carried)),
    givenBack: rounded(Number(total - charge.amount - charge.carried)),
    subjects,
    nodes,
    shares,
    rest: { count: rest?.count ?? 0, quantity: rounded(rest?.amount ?? 0) },
  };
}

/** Gives equal values one number, in the order of their first use. */
function createNumbering() {
  const numbers = new Map<unknown, number>();
  return {
    of: (value: unknown, onFirst?: () => void): number => {
      const known = numbers.get(value);
      if (known !== undefined) return known;
      onFirst?.();
      numbers.set(value, numbers.size);
      return numbers.size - 1;
    },
  };
}

/** Tells subjects apart by the shared values that they are made of, which is quicker than by their texts. */
function createSubjectKeys(): (evidence: Evidence) => string {
  const values = createNumbering();
  return ({ kind, state, gpus, node }) => {
    const rate =
      gpus === undefined
        ? values.of(state.requests ?? state)
        : `${values.of(gpus.device)}×${gpus.devices}×${gpus.parts}×${gpus.asDevices ?? ''}`;
    return `${kind} ${values.of(state.labels)} ${values.of(node)} ${rate}`;
  };
}

function subjectOf({ kind, object, state, gpus, node }: Evidence): Subject {
  const { labels, requests, size } = state;
  return {
    kind,
    ...(object.namespace === '' ? {} : { namespace: object.namespace }),
    ownedBy: ownerOf(kind, labels),
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
            gpus: round(gpusOf(gpus.parts)),
            ...(gpus.asDevices === undefined
              ? { countedAs: 'equivalents' }
              : { countedAs: 'devices', counted: round(gpusOf(gpus.asDevices)) }),
          },
        }),
    ...(node === undefined ? {} : { node: nodeOf(kind, node, gpus !== undefined) }),
  };
}

function ownerOf(kind: Evidence['kind'], labels: ObjectLabels | undefined): string {
  if (kind === 'Node') return 'labels of the node, or the tenant cluster itself has it';
  if (kind === 'Workload') return 'it is the control plane of the tenant cluster';
  const { managedBy } = labels ?? {};
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
    ...(ofGpus && gpu !== undefined && { gpu }),
    ...(ofNode && dedicated !== undefined && { dedicated }),
  };
  return {
    capacityType,
    ...(ofGpus && { gpuType }),
    ...(down && { down }),
    ...(ofNode && { cpu: units(cpu), memoryGib: gib(memory) }),
    ...(Object.keys(decisions).length > 0 && { decidedBy: decisions }),
  };
}

function units(nanos: bigint): number {
  return Number(nanos) / 1e9;
}

function gib(nanoBytes: bigint): number {
  return Number(divideHalfUp(nanoBytes, 2n ** 30n)) / 1e9;
}

function round(quantity: number): number {
  return Math.round(quantity * 1e9) / 1e9;
}
