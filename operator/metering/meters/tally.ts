import type { EventIdentity, EventProperty } from '../../model/event.ts';
import type { Requests } from '../timelines/effective-requests.ts';
import type { AllocatedGpus } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';

/** The identity of a charge within a window; the window is added when events are made. */
export type ChargeIdentity = Pick<
  EventIdentity,
  'tenant' | 'metric' | 'region' | 'project' | 'sku' | 'resource_id' | 'dimensions'
>;

/** A charge that is being summed up. Amounts are nano-units × milliseconds. */
export interface Charge {
  readonly identity: ChargeIdentity;
  /** By {@link identityKey}; stored because making it takes longer than all other work. */
  readonly key: string;
  /** Measured inside the window. */
  amount: bigint;
  /**
   * Carried from closed windows: usage that became known late, or was billed too much
   * (docs/explanation/metering.md#late-facts).
   */
  carried: bigint;
  /** Object time of `carried`, milliseconds. */
  carriedMs: number;
  /** Largest uncertainty of an object's beginning or end that nobody observed, milliseconds. */
  uncertainMs?: number;
  /** Informational; numbers are sums over what is charged. */
  readonly properties: Record<string, EventProperty>;
  /** What it was measured on, for explanations; undefined without evidence. */
  shares?: Shares;
}

/** The charges of a window, one for each identity. */
export interface Tally {
  charge(identity: ChargeIdentity): Charge;
  charges(): Iterable<Charge>;
}

/** Adds measured or carried usage to a charge, with its evidence. `rate` is in nano-units. */
export function addTo(
  charge: Charge,
  usage: {
    readonly carried: boolean;
    readonly weight: 1 | -1;
    readonly ms: number;
    readonly uncertain?: number;
  },
  rate: bigint,
  evidence?: Evidence,
): void {
  const amount = rate * BigInt(usage.weight * usage.ms);
  const { uncertain = 0 } = usage;
  if (uncertain > (charge.uncertainMs ?? 0)) charge.uncertainMs = uncertain;
  if (evidence !== undefined) addShare(charge, evidence, amount, rate);
  if (usage.carried) {
    charge.carried += amount;
    charge.carriedMs += usage.weight * usage.ms;
    return;
  }
  charge.amount += amount;
}

/** Counts charged objects in an event property such as `volumes`. */
export function count(charge: Charge, property: string, by = 1): void {
  const before = charge.properties[property];
  charge.properties[property] = (typeof before === 'number' ? before : 0) + by;
}

/** Returns one text for an identity; equal identities have equal texts. */
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
 * Why an object belongs to its tenant cluster.
 * 1. True: a syncer mapped its namespace.
 * 2. `named`: a label or annotation of the Namespace names the tenant.
 * 3. `labelled`: labels of the object decide, written by controllers of a tenant kind other than
 *    vCluster.
 * 4. False: otherwise.
 */
export type Mapped = boolean | 'named' | 'labelled';

/**
 * The evidence of a share of a charge: one object in one state for a stretch of time. Each pod of
 * the cluster has one while it exists. So evidence references existing objects, and its times are
 * small numbers.
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
  /** State of its node; undefined for an unknown node. */
  readonly node?: NodeState;
  readonly gpus?: AllocatedGpus;
  readonly mapped?: Mapped;
  /** Milliseconds after the start of the window, below zero for what is carried. */
  readonly from: number;
  readonly to: number;
  /** From a closed window (docs/explanation/metering.md#late-facts). */
  readonly carried: boolean;
}

/** The fields of an object's billing state that evidence uses. */
export interface EvidentState {
  /** The labels that decide its owner; absent for a node, whose own state has them. */
  readonly labels?: ObjectLabels;
  readonly requests?: Requests;
  /** Nano-bytes. */
  readonly size?: bigint;
  /** Name of the node that it is on, or that it is. */
  readonly node?: string;
}

/** What a charge was measured on, in order; lists of equal length. */
export interface Shares {
  readonly evidence: Evidence[];
  /** Constant rate of each share, nano-units; undefined where it varies. */
  readonly rates: (bigint | undefined)[];
  /** Nano-units × milliseconds, signed. Floating-point: they only explain, never become money. */
  readonly amounts: number[];
  /** Shares beyond {@link SHARES_STORED}. */
  readonly rest: { count: number; amount: number };
}

/**
 * Limit of stored shares of one charge; the remainder is only counted and summed. It limits the
 * size of an explanation, whatever a tenant runs.
 */
export const SHARES_STORED = 1_000;

/** Adds a share to a charge, or extends the last one if it has the very same evidence. */
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

/** The shares of a charge without evidence. */
export const NO_SHARES: Shares = noShares();

function noShares(): Shares {
  return { evidence: [], rates: [], amounts: [], rest: { count: 0, amount: 0 } };
}

/** Joins two charges of one identity, with the properties of the first. */
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
