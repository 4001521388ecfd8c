import { least } from '../../model/extremes.ts';
import type { PlanChange } from '../../model/tenant.ts';

const HOUR_MS = 3_600_000;

/** A contract that is not archived. Times are milliseconds since the epoch. */
export interface Contract {
  readonly id: string;
  readonly rateCardId: string | undefined;
  readonly from: number;
  /** Exclusive; infinite without an end. */
  readonly to: number;
  /** True if the operator made it and may therefore end it. */
  readonly isOurs: boolean;
  /** True if its invoices go to a billing provider. */
  readonly isLinked: boolean;
  /** True if it has only what the operator sets: no commit, credit, override or charge. */
  readonly isBare: boolean;
  /** Days from an invoice's date until it is due, where the contract sets them. */
  readonly netTermsDays?: number;
}

/** The step after which one contract on the wanted rate card covers all further usage. */
export type ContractPlan =
  | { readonly kind: 'keep'; readonly contract: Contract }
  /** Remove the end of a contract. */
  | { readonly kind: 'reopen'; readonly contract: Contract }
  | { readonly kind: 'create'; readonly from: number }
  /** End `contract` at `at`, and begin one on the wanted card there. */
  | { readonly kind: 'hand-over'; readonly contract: Contract; readonly at: number }
  /**
   * Cancel a future change: archive `next` and remove the end of `contract`. If that is not on the
   * wanted card either, its own change follows.
   */
  | { readonly kind: 'undo'; readonly contract: Contract; readonly next: Contract }
  /** Keep a contract on another rate card, because somebody else made it. */
  | { readonly kind: 'foreign'; readonly contract: Contract };

/**
 * Plans for exactly one contract at any time. Two would bill usage twice, and usage without one
 * would never be billed (docs/how-to/destinations/metronome.md#contracts).
 *
 * 1. There is no contract, or the last one has ended: another one begins at that end, however long
 *    ago.
 * 2. The last contract is on another rate card: it ends at the next full hour, and one on the
 *    wanted card begins there. With `period-end` that moment is the first of the next month.
 * 3. A future change is to a card that is not wanted, or later than wanted: it is undone first.
 *    Otherwise its contract would bill an hour by the wrong card.
 * 4. Somebody else made the last contract: it counts like any other, and is not changed.
 */
export function planContract(
  contracts: readonly Contract[],
  wantedCard: string,
  billableFrom: number,
  now: number,
  change: PlanChange = 'now',
): ContractPlan {
  const last = contracts.toSorted((a, b) => a.to - b.to || a.from - b.from).at(-1);
  if (last === undefined) return { kind: 'create', from: hourAtOrBefore(billableFrom) };
  if (last.to <= now) {
    return { kind: 'create', from: Math.max(last.to, hourAtOrBefore(billableFrom)) };
  }
  const isWanted = last.rateCardId === wantedCard;
  if (!last.isOurs) return { kind: isWanted ? 'keep' : 'foreign', contract: last };
  const before = contracts.find(({ to, isOurs }) => isOurs && to === last.from);
  const isTooLate = last.from > dueAfter(now, change);
  if (last.from > now && before !== undefined && (!isWanted || isTooLate)) {
    return { kind: 'undo', contract: before, next: last };
  }
  if (isWanted) return { kind: Number.isFinite(last.to) ? 'reopen' : 'keep', contract: last };
  // A contract cannot end before it begins.
  return { kind: 'hand-over', contract: last, at: dueAfter(Math.max(now, last.from), change) };
}

/** Returns the moment of a change that is wanted at `ms`. */
function dueAfter(ms: number, change: PlanChange): number {
  return change === 'period-end' ? nextMonth(ms) : nextHour(ms);
}

/**
 * Returns our contracts whose usage another contract also covers, so that it would be billed twice.
 * The other one is a later one of ours, or one that somebody else made, whenever it begins.
 */
export function overlapsOf(contracts: readonly Contract[]): readonly {
  readonly contract: Contract;
  /** The start of the other contract. `contract` must end by then, or be empty. */
  readonly at: number;
}[] {
  return contracts.flatMap((contract) => {
    const others = contracts.filter(
      ({ from, to, isOurs }) =>
        from < contract.to && to > contract.from && (!isOurs || from > contract.from),
    );
    const at = least(others.map(({ from }) => from));
    return contract.isOurs && others.length > 0 ? [{ contract, at }] : [];
  });
}

/** A tenant's state at Metronome as provisioning found it. */
export interface MetronomeTenant {
  readonly customerId: string;
  /** Undefined without a rate card: the people who run Metronome then make the contracts. */
  readonly contracts?: readonly Contract[];
}

export type MetronomeTenants = Map<string, MetronomeTenant>;

/** Tells if an invoice would have usage of a moment. */
export type Cover =
  | { readonly kind: 'covered'; readonly rateCardId: string | undefined }
  /** The moment is before the first contract. `from` is its start, milliseconds since the epoch. */
  | { readonly kind: 'before'; readonly from: number }
  | { readonly kind: 'uncovered' };

export function coverAt({ contracts }: MetronomeTenant, at: number): Cover {
  if (contracts === undefined) return { kind: 'covered', rateCardId: undefined };
  const covering = contracts.find(({ from, to }) => from <= at && at < to);
  if (covering !== undefined) return { kind: 'covered', rateCardId: covering.rateCardId };
  const from = least(contracts.map((contract) => contract.from));
  return at < from && Number.isFinite(from) ? { kind: 'before', from } : { kind: 'uncovered' };
}

/**
 * Returns the full hour at or before a moment, milliseconds since the epoch. Contracts and products
 * begin and end on full hours.
 */
export function hourAtOrBefore(ms: number): number {
  return Math.floor(ms / HOUR_MS) * HOUR_MS;
}

export function hourAtOrAfter(ms: number): number {
  return Math.ceil(ms / HOUR_MS) * HOUR_MS;
}

/** Returns the first full hour after a moment. */
export function nextHour(ms: number): number {
  return hourAtOrBefore(ms) + HOUR_MS;
}

/** Returns the start of the next month. Statements are by calendar months in UTC. */
function nextMonth(ms: number): number {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}
