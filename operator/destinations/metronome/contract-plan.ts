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
 * Two contracts at a time would bill usage twice, a stretch without one would bill it never
 * (docs/destinations/metronome.md#contracts). So there is a new contract only where the last one ends:
 * after one that has ended, whenever that was (a crash between the two steps of a hand-over leaves no
 * hole), or at the next full hour, with `period-end` at the next first of a month, after one on another rate card,
 * which then ends there. A contract that
 * somebody else made counts like any other and is never ended. What has not begun yet, and is not wanted any
 * more, is archived: it would bill one hour by the wrong card.
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
  if (last.rateCardId === wantedCard) {
    const ends = Number.isFinite(last.to) && last.isOurs;
    return { kind: ends ? 'reopen' : 'keep', contract: last };
  }
  if (!last.isOurs) return { kind: 'foreign', contract: last };
  if (Number.isFinite(last.to)) return { kind: 'create', from: last.to };
  const before = contracts.find(({ to }) => to === last.from);
  const isUndone = before?.rateCardId === wantedCard || change === 'period-end';
  if (last.from > now && before?.isOurs === true && isUndone) {
    return { kind: 'undo', contract: before, next: last };
  }
  // A contract cannot end before it has begun.
  const begun = Math.max(now, last.from);
  const at = change === 'period-end' ? nextMonth(begun) : nextHour(begun);
  return { kind: 'hand-over', contract: last, at };
}

/** A contract of ours that must end where the next one, made by whomever, begins. */
export interface Overlap {
  readonly contract: Contract;
  readonly at: number;
}

/** Contracts of ours that run into another one: what both cover would be billed twice. */
export function overlapsOf(contracts: readonly Contract[]): readonly Overlap[] {
  const ordered = contracts.toSorted((a, b) => a.from - b.from);
  return ordered.flatMap((contract, index) => {
    const next = ordered.slice(index + 1).find(({ from }) => from > contract.from);
    if (!contract.isOurs || next === undefined || contract.to <= next.from) return [];
    return [{ contract, at: next.from }];
  });
}

/** Pairs that begin in the same hour, one of them ours: neither can end before it has begun. */
export function twinsOf(
  contracts: readonly Contract[],
): readonly (readonly [Contract, Contract])[] {
  return contracts
    .filter(({ isOurs }) => isOurs)
    .flatMap((ours) =>
      contracts
        .filter((other) => !other.isOurs && other.from === ours.from)
        .map((other) => [ours, other] as const),
    );
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
