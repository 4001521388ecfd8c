import type { EventIdentity, EventProperty } from '../../model/event.ts';
import type { Requests } from '../timelines/effective-requests.ts';
import type { HeldGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';

/** What tells one charge of a window from another; the window itself is added when events are made. */
export type ChargeIdentity = Pick<
  EventIdentity,
  'tenant' | 'metric' | 'region' | 'project' | 'sku' | 'resource_id' | 'dimensions'
>;

/** One charge under way. Amounts are nano-units × milliseconds. */
export interface Charge {
  readonly identity: ChargeIdentity;
  /** As {@link identityKey} gives it: it takes longer to make than all else that is done with a charge. */
  readonly key: string;
  /** Measured inside the window. */
  amount: bigint;
  /**
   * Carried from closed windows: usage that became known late, or was billed too much
   * (docs/explanation/metering.md#late-facts).
   */
  carried: bigint;
  /** Object time behind `carried`, milliseconds. */
  carriedMs: number;
  /** How far off the beginning or end of an object may be that nobody saw, milliseconds: the largest of all. */
  uncertainMs?: number;
  /** Informational; numbers are summed over what is charged. */
  readonly properties: Record<string, EventProperty>;
  /** What it was measured on, for explanations; undefined where nothing said. */
  shares?: Shares;
}

/** The charges of a window, equal identities being one charge. */
export interface Tally {
  charge(identity: ChargeIdentity): Charge;
  charges(): Iterable<Charge>;
}

/** Adds one piece of measured or carried usage to a charge, and what it was measured on. */
export function addTo(
  charge: Charge,
  piece: {
    readonly carried: boolean;
    readonly weight: 1 | -1;
    readonly ms: number;
    readonly uncertain?: number;
  },
  rate: bigint,
  evidence?: Evidence,
): void {
  const amount = rate * BigInt(piece.weight * piece.ms);
  const { uncertain = 0 } = piece;
  if (uncertain > (charge.uncertainMs ?? 0)) charge.uncertainMs = uncertain;
  if (evidence !== undefined) addShare(charge, evidence, amount, rate);
  if (piece.carried) {
    charge.carried += amount;
    charge.carriedMs += piece.weight * piece.ms;
    return;
  }
  charge.amount += amount;
}

/** Counts what is charged in a property such as `volumes`. */
export function count(charge: Charge, property: string, by = 1): void {
  const before = charge.properties[property];
  charge.properties[property] = (typeof before === 'number' ? before : 0) + by;
}

/** One text for an identity; equal identities have equal texts. */
export function identityKey(identity: ChargeIdentity): string {
  const { tenant, metric, region, project, sku, resource_id, dimensions } = identity;
  const entries = Object.entries(dimensions ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([tenant, metric, region, project, sku, resource_id, entries]);
}

export function createTally(): Tally {
  const charges = new Map<string, Charge>();
  return {
    charge: (identity) => {
      const key = identityKey(identity);
      const known = charges.get(key);
      if (known !== undefined) return known;
      const charge = { identity, key, amount: 0n, carried: 0n, carriedMs: 0, properties: {} };
      charges.set(key, charge);
      return charge;
    },
    charges: () => charges.values(),
  };
}

/**
 * Whether the namespace of an object is its tenant cluster's as a whole: its syncer has mapped it, or a label or
 * annotation of the Namespace names the tenant. `labelled`: it is not, and labels say whose the object is that
 * controllers of another kind of tenants than vCluster write.
 */
export type Mapped = boolean | 'named' | 'labelled';

/**
 * What a share of a charge was measured on: one object in one state for one stretch of its time. There
 * is one for every pod of the cluster, which stays while the pod does, so it refers to what is there
 * anyway, and its times are small numbers.
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
  readonly mapped?: Mapped;
  /** Milliseconds after the start of the window, below zero for what is carried. */
  readonly from: number;
  readonly to: number;
  /** Of a closed window (docs/explanation/metering.md#late-facts). */
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
  /** Nano-units that a share has all the time; undefined where it changes on the way. */
  readonly rates: (bigint | undefined)[];
  /** Nano-units × milliseconds, signed. Doubles, since they only explain: no sum of money is made of them. */
  readonly amounts: number[];
  /** What was not kept. */
  readonly rest: { count: number; amount: number };
}

/**
 * How many shares of one charge are kept; of the rest only how many and how much. It bounds what one
 * explanation needs, whatever a tenant runs.
 */
export const SHARES_STORED = 1_000;

/** Adds a share to a charge; to the one before when it has the very same evidence. */
export function addShare(
  charge: { shares?: Shares },
  evidence: Evidence,
  exactAmount: bigint,
  rate?: bigint,
): void {
  const shares = (charge.shares ??= noShares());
  const { rates, amounts, rest } = shares;
  const amount = Number(exactAmount);
  if (shares.evidence.at(-1) === evidence) {
    amounts.push((amounts.pop() ?? 0) + amount);
    rates[rates.length - 1] = undefined;
  } else if (shares.evidence.length < SHARES_STORED) {
    shares.evidence.push(evidence);
    rates.push(rate);
    amounts.push(amount);
  } else {
    rest.count += 1;
    rest.amount += amount;
  }
}

/** Of a charge that nothing was said of. */
export const NO_SHARES: Shares = noShares();

function noShares(): Shares {
  return { evidence: [], rates: [], amounts: [], rest: { count: 0, amount: 0 } };
}

/** Two charges of one identity as one, with the properties of the first. */
export function joined(a: Charge, b: Charge): Charge {
  const [first, second] = [a.shares ?? NO_SHARES, b.shares ?? NO_SHARES];
  return {
    ...a,
    amount: a.amount + b.amount,
    carried: a.carried + b.carried,
    carriedMs: a.carriedMs + b.carriedMs,
    uncertainMs: Math.max(a.uncertainMs ?? 0, b.uncertainMs ?? 0),
    shares: {
      evidence: [...first.evidence, ...second.evidence],
      rates: [...first.rates, ...second.rates],
      amounts: [...first.amounts, ...second.amounts],
      rest: {
        count: first.rest.count + second.rest.count,
        amount: first.rest.amount + second.rest.amount,
      },
    },
  };
}
