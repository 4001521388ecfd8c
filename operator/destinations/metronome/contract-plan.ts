import { hourAtOrBefore, nextHour } from './hours.ts';

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
}

/** What to do so that one contract, on the wanted rate card, covers what is to be billed from now on. */
export type ContractPlan =
  | { readonly kind: 'keep'; readonly contract: Contract }
  /** It was to end, and goes on. */
  | { readonly kind: 'reopen'; readonly contract: Contract }
  | { readonly kind: 'create'; readonly from: number }
  /** `contract` ends at `at`, where one on the wanted card begins. */
  | { readonly kind: 'hand-over'; readonly contract: Contract; readonly at: number }
  /** Another rate card than wanted, and not ours to end. */
  | { readonly kind: 'foreign'; readonly contract: Contract };

/**
 * Two contracts at a time would bill usage twice, a stretch without one would bill it never (facts 3.5).
 * So there is a new contract only where the last one ends: after one that has ended, whenever that was
 * (a crash between the two steps of a hand-over leaves no hole), or at the next full hour after one on
 * another rate card, which then ends there. A contract that somebody else made counts like any other and
 * is never ended.
 */
export function planContract(
  contracts: readonly Contract[],
  wantedCard: string,
  billableFrom: number,
  now: number,
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
  // A contract cannot end before it has begun.
  const at = nextHour(Math.max(now, last.from));
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
