import type { Charge, ChargeIdentity } from './tally.ts';
import { identityKey, joined } from './tally.ts';

/**
 * What was billed too much in closed windows and could not be given back yet
 * (docs/explanation/metering.md#late-facts). Never positive: usage that was billed too little is charged at once.
 */
export interface Reversal {
  readonly identity: ChargeIdentity;
  /** Nano-units × milliseconds, below zero. */
  readonly amount: bigint;
  /** Object time behind it, milliseconds, at most zero. */
  readonly ms: number;
  /** End of the window in which it arose, milliseconds since the epoch. */
  readonly since: number;
}

/** A charge with everything carried into it: what its event will say. */
export interface Settled {
  readonly charge: Charge;
  /** Nano-units × milliseconds, not below zero. */
  readonly total: bigint;
  /** Object time of closed windows in it, milliseconds, signed; 0 when there is none. */
  readonly carriedMs: number;
}

export interface Settlement {
  readonly settled: readonly Settled[];
  /** Still to be given back. */
  readonly reversals: readonly Reversal[];
  /**
   * Credits that found no charge within MAX_BACKFILL: object time billed too much, milliseconds,
   * positive.
   */
  readonly unsettledMs: number;
}

/**
 * Gives credits back. Each goes to the charge of its own identity; what is left, or has no such
 * charge, to another charge of the same tenant, metric and sku; the rest waits. No total
 * falls below zero.
 */
export function settleCredits(
  charges: Iterable<Charge>,
  open: readonly Reversal[],
  windowEnd: number,
  maxAgeMs: number,
): Settlement {
  const totals = new Map<string, Running>();
  const credits: Reversal[] = [];
  for (const charge of charges) {
    const { key } = charge;
    const known = totals.get(key);
    // Two scopes may each have charged a node of one name; they are one event.
    const complete = known === undefined ? charge : joined(known.charge, charge);
    const { amount, carried, carriedMs } = complete;
    totals.set(key, { charge: complete, total: amount + carried, carriedMs });
  }
  for (const running of totals.values()) {
    if (running.total >= 0n) continue;
    const ms = share(running.carriedMs, running.total, running.charge.carried);
    const { identity } = running.charge;
    credits.push({ identity, amount: running.total, ms, since: windowEnd });
    running.carriedMs -= ms;
    running.total = 0n;
  }
  const due = [...open, ...credits];
  // Looked up, since many credits may meet many charges.
  const bySibling: ReadonlyMap<string, readonly Running[]> =
    due.length === 0
      ? new Map()
      : Map.groupBy(totals.values(), ({ charge }) => siblingKey(charge.identity));
  const waiting: Reversal[] = [];
  let unsettledMs = 0;
  for (const credit of due) {
    const rest = spend(credit, totals, bySibling);
    if (rest === undefined) continue;
    if (windowEnd - rest.since < maxAgeMs) waiting.push(rest);
    else unsettledMs -= rest.ms;
  }
  return { settled: [...totals.values()], reversals: waiting, unsettledMs };
}

interface Running {
  readonly charge: Charge;
  total: bigint;
  carriedMs: number;
}

/** Takes a credit off the charges that may bear it; what is left of it, if anything. */
function spend(
  credit: Reversal,
  totals: ReadonlyMap<string, Running>,
  bySibling: ReadonlyMap<string, readonly Running[]>,
): Reversal | undefined {
  let { amount, ms } = credit;
  const own = totals.get(identityKey(credit.identity));
  const siblings = bySibling.get(siblingKey(credit.identity)) ?? [];
  for (const running of own === undefined ? siblings : [own, ...siblings]) {
    if (amount === 0n) return undefined;
    const taken = running.total < -amount ? -running.total : amount;
    const takenMs = share(ms, taken, amount);
    running.total += taken;
    running.carriedMs += takenMs;
    amount -= taken;
    ms -= takenMs;
  }
  return amount === 0n ? undefined : { ...credit, amount, ms };
}

/** Equal where one charge may bear the credit of another. */
function siblingKey({ tenant, metric, sku }: ChargeIdentity): string {
  return JSON.stringify([tenant, metric, sku]);
}

/** The part of `ms` that belongs to `part` of `whole`, which is not 0. */
function share(ms: number, part: bigint, complete: bigint): number {
  return Math.round((ms * Number(part)) / Number(complete));
}
