import type { NodeState } from '../observation/node-state.ts';
import { divideHalfUp } from '../usage/decimal.ts';
import { gpusOf } from '../usage/gpu-parts.ts';
import type { Window } from '../usage/window.ts';
import type { Settled } from './credits.ts';
import type { Evidence } from './evidence.ts';
import { quantityDivisor } from './metric-units.ts';

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
  readonly shares: readonly Share[];
  readonly rest: { readonly count: number; readonly quantity: number };
}

/** `from` and `to` are milliseconds after the start of the window, below zero for carried ones. */
export type Share = readonly [
  subject: number,
  uid: string,
  name: string,
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
  };
  readonly node?: {
    readonly name: string;
    /** Absent when no node of that name was ever seen. */
    readonly capacityType?: string;
    readonly gpuType?: string;
    readonly down?: true;
    readonly cpu?: number;
    readonly memoryGib?: number;
    readonly decidedBy?: NodeState['decidedBy'];
  };
}

/** Explains one event of a window. */
export function explain(id: string, settled: Settled, window: Window): Explanation {
  const { charge, total } = settled;
  const { metric } = charge.identity;
  const subjects: Subject[] = [];
  const known = new Map<string, number>();
  const numberOf = (subject: Subject): number => {
    const key = JSON.stringify(subject);
    const before = known.get(key);
    if (before !== undefined) return before;
    known.set(key, subjects.length);
    return subjects.push(subject) - 1;
  };
  const rounded = (amount: number): number => round(amount / Number(quantityDivisor(metric)) / 1e9);
  const shares: Share[] = [];
  for (const [evidence, amount] of charge.shares?.list() ?? []) {
    const { object, from, to, carried } = evidence;
    const bounds = [from - window.start, to - window.start] as const;
    const subject = numberOf(subjectOf(evidence));
    const quantity = rounded(amount);
    shares.push([subject, object.uid, object.name, ...bounds, quantity, carried ? 1 : 0]);
  }
  const { count = 0, amount = 0 } = charge.shares?.rest ?? {};
  return {
    id,
    measured: rounded(Number(charge.amount)),
    carried: rounded(Number(charge.carried)),
    givenBack: rounded(Number(total - charge.amount - charge.carried)),
    subjects,
    shares,
    rest: { count, quantity: rounded(amount) },
  };
}

function subjectOf({ kind, object, labels, requests, size, gpus, node }: Evidence): Subject {
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
          },
        }),
    ...(node === undefined
      ? {}
      : { node: nodeOf(kind, node.name, node.state, gpus !== undefined) }),
  };
}

function ownerOf(kind: Evidence['kind'], labels: Evidence['labels']): string {
  if (kind === 'Node') return 'labels of the node, or the tenant cluster itself has it';
  if (kind === 'Workload') return 'it is the control plane of the tenant cluster';
  const { managedBy } = labels ?? {};
  if (managedBy !== undefined) return `vcluster.loft.sh/managed-by=${managedBy}`;
  return 'the only tenant cluster of its namespace, or its control plane';
}

function nodeOf(
  kind: Evidence['kind'],
  name: string,
  state: NodeState | undefined,
  ofGpus: boolean,
): NonNullable<Subject['node']> {
  if (state === undefined) return { name };
  const { capacityType, gpuType, down, cpu, memory, decidedBy } = state;
  const { gpu, dedicated, ...others } = decidedBy ?? {};
  const ofNode = kind === 'Node';
  const decisions = {
    ...others,
    ...(ofGpus && gpu !== undefined && { gpu }),
    ...(ofNode && dedicated !== undefined && { dedicated }),
  };
  return {
    name,
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
