import type { HeldGpus } from '../observation/gpu-device.ts';
import type { Requests } from '../observation/effective-requests.ts';
import type { NodeState } from '../observation/node-state.ts';
import type { ObjectLabels } from '../observation/object-labels.ts';

/**
 * What a share of a charge was measured on: one object in one state for one stretch of its time. There
 * is one for every pod of the cluster until the window's explanations are written, so it refers to
 * what is there anyway, and its times are small numbers.
 */
export interface Evidence {
  readonly kind:
    | 'Pod'
    | 'ResourceClaim'
    | 'PersistentVolumeClaim'
    | 'Service'
    | 'Workload'
    | 'Node';
  readonly object: { readonly uid: string; readonly namespace: string; readonly name: string };
  readonly state: EvidentState;
  /** What its node was; undefined when no node of that name was ever seen. */
  readonly node?: NodeState | undefined;
  readonly gpus?: HeldGpus;
  /** Milliseconds after the start of the window, below zero for what is carried. */
  readonly from: number;
  readonly to: number;
  /** Of a closed window (design 6). */
  readonly carried: boolean;
}

/** An object's billing state, as far as it has these. */
export interface EvidentState {
  /** What says whose it is; a node says it in its own state. */
  readonly labels?: ObjectLabels;
  readonly requests?: Requests;
  /** Nano-bytes. */
  readonly size?: bigint;
  /** Name of the node that it is on, or is. */
  readonly node?: string | undefined;
}

/** What a charge was measured on, in that order; lists of one length. */
export interface Shares {
  readonly evidence: Evidence[];
  /** Nano-units × milliseconds, signed. Doubles, since they only explain: no sum of money is made of them. */
  readonly amounts: number[];
  /** What was not kept. */
  readonly rest: { count: number; amount: number };
}

/**
 * How many shares of one charge are kept; of the rest only how many and how much. It bounds what one
 * explanation needs, whatever a tenant runs.
 */
export const SHARES_KEPT = 1_000;

/** Adds a share to a charge; to the one before when it has the very same evidence. */
export function addShare(
  charge: { shares?: Shares },
  evidence: Evidence,
  exactAmount: bigint,
): void {
  const shares = (charge.shares ??= { evidence: [], amounts: [], rest: { count: 0, amount: 0 } });
  const { amounts, rest } = shares;
  const amount = Number(exactAmount);
  if (shares.evidence.at(-1) === evidence) {
    amounts.push((amounts.pop() ?? 0) + amount);
  } else if (shares.evidence.length < SHARES_KEPT) {
    shares.evidence.push(evidence);
    amounts.push(amount);
  } else {
    rest.count += 1;
    rest.amount += amount;
  }
}
