import type { EventIdentity } from '../model/event.ts';
import { addShare, type Evidence, type Shares } from './evidence.ts';

/** What tells one charge of a window from another; the window itself is added when events are made. */
export type ChargeIdentity = Pick<
  EventIdentity,
  'tenant' | 'metric' | 'region' | 'project' | 'sku' | 'resource_id' | 'dimensions'
>;

/** One charge under way. Amounts are nano-units × milliseconds. */
export interface Charge {
  readonly identity: ChargeIdentity;
  /** Measured inside the window. */
  amount: bigint;
  /** Carried from closed windows: usage that became known late, or was billed too much (design 6). */
  carried: bigint;
  /** Object time behind `carried`, milliseconds. */
  carriedMs: number;
  /** Informational; numbers are summed over what is charged. */
  readonly properties: Record<string, string | number>;
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
  piece: { readonly carried: boolean; readonly weight: 1 | -1; readonly ms: number },
  rate: bigint,
  evidence?: Evidence,
): void {
  const amount = rate * BigInt(piece.weight * piece.ms);
  if (evidence !== undefined) addShare(charge, evidence, amount);
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
      const charge = { identity, amount: 0n, carried: 0n, carriedMs: 0, properties: {} };
      charges.set(key, charge);
      return charge;
    },
    charges: () => charges.values(),
  };
}
