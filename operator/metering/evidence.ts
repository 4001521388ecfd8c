import type { HeldGpus } from '../observation/gpu-device.ts';
import type { Requests } from '../observation/effective-requests.ts';
import type { NodeState } from '../observation/node-state.ts';
import type { ObjectLabels } from '../observation/object-labels.ts';

/** What a share of a charge was measured on: one object in one state for one stretch of its time. */
export interface Evidence {
  readonly kind:
    | 'Pod'
    | 'ResourceClaim'
    | 'PersistentVolumeClaim'
    | 'Service'
    | 'Workload'
    | 'Node';
  readonly object: { readonly uid: string; readonly namespace: string; readonly name: string };
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
  /** Of a closed window; -1 takes back what was billed (design 6). */
  readonly carried: boolean;
  readonly weight: 1 | -1;
  /** What said whose it is; a node says it in its own state. */
  readonly labels?: ObjectLabels;
  /** What decides the rate, as far as it has that. */
  readonly requests?: Requests;
  readonly gpus?: HeldGpus;
  /** Nano-bytes. */
  readonly size?: bigint;
  /** Where it was; no state when no node of that name was ever seen. */
  readonly node?: { readonly name: string; readonly state: NodeState | undefined };
}

/**
 * How many shares of one charge are kept; of the rest only how many and how much. It bounds what one
 * explanation needs, whatever a tenant runs.
 */
export const SHARES_KEPT = 1_000;

/** The shares of a charge, in the order in which they were measured. */
export interface Shares {
  /** Adds nano-units × milliseconds, signed; to the share before when it has the same evidence. */
  add(evidence: Evidence, amount: bigint): void;
  list(): Iterable<readonly [evidence: Evidence, amount: number]>;
  /** What was not kept. */
  readonly rest: { readonly count: number; readonly amount: number };
}

/**
 * Amounts are doubles in a list of their own: there are two for each pod of the cluster, they only
 * explain, and no sum of money is made of them.
 */
export function createShares(): Shares {
  const kept: Evidence[] = [];
  const amounts: number[] = [];
  const rest = { count: 0, amount: 0 };
  let last: Evidence | undefined;
  return {
    rest,
    add: (evidence, amount) => {
      const isSame = evidence === last;
      last = evidence;
      if (rest.count > 0) {
        if (!isSame) rest.count += 1;
        rest.amount += Number(amount);
        return;
      }
      if (isSame) {
        amounts.push((amounts.pop() ?? 0) + Number(amount));
        return;
      }
      if (kept.length === SHARES_KEPT) {
        rest.count = 1;
        rest.amount = Number(amount);
        return;
      }
      kept.push(evidence);
      amounts.push(Number(amount));
    },
    *list() {
      for (const [index, evidence] of kept.entries()) yield [evidence, amounts[index] ?? 0];
    },
  };
}
