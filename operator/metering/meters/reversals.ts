import type { Charge, ChargeIdentity } from './tally.ts';
import { identityKey, joined } from './tally.ts';

/**
 * Usage that closed windows billed too much, and that is not reversed yet
 * (docs/explanation/metering.md#late-facts). Never positive: usage that was billed too little is
 * charged at once.
 */
export interface Reversal {
  readonly identity: ChargeIdentity;
  /** Nano-units × milliseconds, below zero. */
  readonly amount: bigint;
  /** Its object time, milliseconds, at most zero. */
  readonly ms: number;
  /** End of the window in which it arose, milliseconds since the epoch. */
  readonly since: number;
}

/** A charge with everything carried into it, ready for its event. */
export interface Settled {
  readonly charge: Charge;
  /** Nano-units × milliseconds, not below zero. */
  readonly total: bigint;
  /** Its object time of closed windows, milliseconds, signed; 0 when there is none. */
  readonly carriedMs: number;
}

export interface SettledCharges {
  readonly settled: readonly Settled[];
  /** Reversals that wait for a charge. */
  readonly reversals: readonly Reversal[];
  /** Reversals without a charge within MAX_BACKFILL: overbilled object time, ms, positive. */
  readonly expiredMs: number;
}

/**
 * Reduces charges by reversals; no total falls below zero.
 * 1. A reversal reduces the charge of its own identity.
 * 2. What is left reduces other charges of the same tenant, metric and sku.
 * 3. What is left then waits.
 */
export function settleReversals(
  charges: Iterable<Charge>,
  open: readonly Reversal[],
  windowEnd: number,
  maxAgeMs: number,
): SettledCharges {
  const totals = new Map<string, Running>();
  const arisen: Reversal[] = [];
  for (const charge of charges) {
    const { key } = charge;
    const known = totals.get(key);
    // Two scopes may each have charged a node of one name; they become one event.
    const complete = known === undefined ? charge : joined(known.charge, charge);
    const { amount, carried, carriedMs } = complete;
    totals.set(key, { charge: complete, total: amount + carried, carriedMs });
  }
  for (const running of totals.values()) {
    if (running.total >= 0n) continue;
    const ms = share(running.carriedMs, running.total, running.charge.carried);
    const { identity } = running.charge;
    arisen.push({ identity, amount: running.total, ms, since: windowEnd });
    running.carriedMs -= ms;
    running.total = 0n;
  }
  const due = [...open, ...arisen];
  // An index, because many reversals may meet many charges.
  const bySibling: ReadonlyMap<string, readonly Running[]> =
    due.length === 0
      ? new Map()
      : Map.groupBy(totals.values(), ({ charge }) => siblingKey(charge.identity));
  const waiting: Reversal[] = [];
  let expiredMs = 0;
  for (const reversal of due) {
    const remainder = spend(reversal, totals, bySibling);
    if (remainder === undefined) continue;
    if (windowEnd - remainder.since < maxAgeMs) waiting.push(remainder);
    else expiredMs -= remainder.ms;
  }
  return { settled: [...totals.values()], reversals: waiting, expiredMs };
}

interface Running {
  readonly charge: Charge;
  total: bigint;
  carriedMs: number;
}

/** Reduces charges by a reversal; returns what is left of it, or undefined. */
function spend(
  reversal: Reversal,
  totals: ReadonlyMap<string, Running>,
  bySibling: ReadonlyMap<string, readonly Running[]>,
): Reversal | undefined {
  let { amount, ms } = reversal;
  const own = totals.get(identityKey(reversal.identity));
  const siblings = bySibling.get(siblingKey(reversal.identity)) ?? [];
  for (const running of own === undefined ? siblings : [own, ...siblings]) {
    if (amount === 0n) return undefined;
    const taken = running.total < -amount ? -running.total : amount;
    const takenMs = share(ms, taken, amount);
    running.total += taken;
    running.carriedMs += takenMs;
    amount -= taken;
    ms -= takenMs;
  }
  return amount === 0n ? undefined : { ...reversal, amount, ms };
}

/** Equal where a reversal of one charge may reduce the other. */
function siblingKey({ tenant, metric, sku }: ChargeIdentity): string {
  return JSON.stringify([tenant, metric, sku]);
}

/** The part of `ms` that belongs to `part` of `complete`, which must not be 0. */
function share(ms: number, part: bigint, complete: bigint): number {
  return Math.round((ms * Number(part)) / Number(complete));
}
