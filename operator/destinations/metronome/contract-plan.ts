import { least } from '../../model/extremes.ts';
import type { PlanChange } from '../../model/tenant.ts';

const HOUR_MS = 3_600_000;

/** A contract of a customer that is not archived. Times are milliseconds since the epoch. */
export interface Contract {
  readonly id: string;
  readonly rateCardId: string | undefined;
  readonly from: number;
  /** Exclusive; infinite while it has no end. */
  readonly to: number;
  /** Made here, so that it may be ended here. */
  readonly isOurs: boolean;
  /** Whether its invoices go to a billing provider. */
  readonly isLinked: boolean;
  /** Whether it has nothing but what meterfeed gives it: no commit, credit, override or charge. */
  readonly isBare: boolean;
  /** Days from an invoice's date until it is due, where it says so. */
  readonly netTermsDays?: number;
}

/** What to do so that one contract, on the wanted rate card, covers what is to be billed from now on. */
export type ContractPlan =
  | { readonly kind: 'keep'; readonly contract: Contract }
  /** It was to end, and goes on. */
  | { readonly kind: 'reopen'; readonly contract: Contract }
  | { readonly kind: 'create'; readonly from: number }
  /** `contract` ends at `at`, where one on the wanted card begins. */
  | { readonly kind: 'hand-over'; readonly contract: Contract; readonly at: number }
  /**
   * A change that has not come yet: `next` goes, and `contract`, which was to end where it begins, goes on; where
   * that is on another card than the wanted one, its own change follows.
   */
  | { readonly kind: 'undo'; readonly contract: Contract; readonly next: Contract }
  /** Another rate card than wanted, and not ours to end. */
  | { readonly kind: 'foreign'; readonly contract: Contract };

/**
 * Plans for one contract at any time: two would bill usage twice, a stretch without one would bill it never
 * (docs/how-to/destinations/metronome.md#contracts).
 *
 * 1. Nothing is there, or the last contract has ended: another one begins where that ended, whenever that was.
 * 2. The last contract is on another rate card: it ends at the next full hour, with `period-end` on the next first
 *    of a month, and one on the wanted card begins there.
 * 3. A change that has not come yet is on a card that nobody wants any more, or comes later than wanted: it is undone
 *    first, since its contract would bill an hour by the wrong card.
 * 4. Somebody else made the last contract: it counts like any other, and stays as it is.
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
  // A contract cannot end before it has begun.
  return { kind: 'hand-over', contract: last, at: dueAfter(Math.max(now, last.from), change) };
}

/** When a change that is wanted at a moment comes. */
function dueAfter(ms: number, change: PlanChange): number {
  return change === 'period-end' ? nextMonth(ms) : nextHour(ms);
}

/**
 * Contracts of ours that cover usage which another one covers as well, so that it would be billed twice: one that
 * somebody made, whenever it begins, or a later one of ours.
 */
export function overlapsOf(contracts: readonly Contract[]): readonly {
  readonly contract: Contract;
  /** Where the other one begins: no later than `contract` does, where nothing may be left of that. */
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

/** What is known of a tenant at Metronome since it was provisioned. */
export interface MetronomeTenant {
  readonly customerId: string;
  /** Undefined where no contracts are made: usage is then billed as whoever runs Metronome arranges it. */
  readonly contracts?: readonly Contract[];
}

export type MetronomeTenants = Map<string, MetronomeTenant>;

/** Whether usage of a moment would be on an invoice. */
export type Cover =
  | { readonly kind: 'covered'; readonly rateCardId: string | undefined }
  /** Before the first contract began. `from` in milliseconds since the epoch. */
  | { readonly kind: 'before'; readonly from: number }
  | { readonly kind: 'uncovered' };

export function coverAt({ contracts }: MetronomeTenant, at: number): Cover {
  if (contracts === undefined) return { kind: 'covered', rateCardId: undefined };
  const covering = contracts.find(({ from, to }) => from <= at && at < to);
  if (covering !== undefined) return { kind: 'covered', rateCardId: covering.rateCardId };
  const from = least(contracts.map((contract) => contract.from));
  return at < from && Number.isFinite(from) ? { kind: 'before', from } : { kind: 'uncovered' };
}

/** Contracts and products begin and end on full hours. Milliseconds since the epoch. */
export function hourAtOrBefore(ms: number): number {
  return Math.floor(ms / HOUR_MS) * HOUR_MS;
}

export function hourAtOrAfter(ms: number): number {
  return Math.ceil(ms / HOUR_MS) * HOUR_MS;
}

/** The first full hour that is still to come. */
export function nextHour(ms: number): number {
  return hourAtOrBefore(ms) + HOUR_MS;
}

/** The first of a month that is still to come: statements are by calendar months, in UTC. */
function nextMonth(ms: number): number {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}
